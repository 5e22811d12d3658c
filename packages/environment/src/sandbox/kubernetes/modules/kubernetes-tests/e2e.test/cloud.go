package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/test/e2e/framework"
)

// cloud is the Hetzner Cloud API at HCLOUD_ENDPOINT, with HCLOUD_TOKEN.
type cloud struct{ framework.NullProvider }

// DeleteNode deletes a node's server, whose number its provider ID ends with.
func (cloud) DeleteNode(node *v1.Node) error {
	_, number, found := strings.Cut(node.Spec.ProviderID, "://")
	if !found {
		return fmt.Errorf("node %s has the provider ID %q", node.Name, node.Spec.ProviderID)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := os.Getenv("HCLOUD_ENDPOINT") + "/servers/" + number
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("HCLOUD_TOKEN"))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("DELETE %s: %s", address, answer.Status)
	}
	return nil
}
