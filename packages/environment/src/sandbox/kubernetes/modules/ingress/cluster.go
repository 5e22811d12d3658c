package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// What we read of Kubernetes' objects.
type (
	list[T any] struct {
		Items []T `json:"items"`
	}
	metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	ingress struct {
		Metadata metadata `json:"metadata"`
		Spec     struct {
			IngressClassName string        `json:"ingressClassName"`
			DefaultBackend   *backend      `json:"defaultBackend"`
			Rules            []ingressRule `json:"rules"`
		} `json:"spec"`
		Status status `json:"status"`
	}
	ingressRule struct {
		Host string `json:"host"`
		HTTP *paths `json:"http"`
	}
	paths struct {
		Paths []ingressPath `json:"paths"`
	}
	ingressPath struct {
		Path     string  `json:"path"`
		PathType string  `json:"pathType"`
		Backend  backend `json:"backend"`
	}
	backend struct {
		Service backendService `json:"service"`
	}
	backendService struct {
		Name string      `json:"name"`
		Port servicePort `json:"port"`
	}
	service struct {
		Metadata metadata    `json:"metadata"`
		Spec     serviceSpec `json:"spec"`
		Status   status      `json:"status"`
	}
	serviceSpec struct {
		ClusterIP string        `json:"clusterIP"`
		Ports     []servicePort `json:"ports"`
	}
	// servicePort has its number under "port" in a Service, and under "number" in an Ingress.
	servicePort struct {
		Name   string `json:"name"`
		Port   int    `json:"port"`
		Number int    `json:"number"`
	}
	status struct {
		LoadBalancer loadBalancer `json:"loadBalancer"`
	}
	loadBalancer struct {
		Ingress []address `json:"ingress,omitempty"`
	}
	address struct {
		IP       string `json:"ip,omitempty"`
		Hostname string `json:"hostname,omitempty"`
	}
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// A cluster is the API server, asked as the Pod's service account.
type cluster struct {
	url    string
	client *http.Client
}

func inCluster() (*cluster, error) {
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, fmt.Errorf("this runs in a Pod with a service account: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%sca.crt has no certificate", account)
	}
	url := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	return &cluster{url, &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

// call sends a request and decodes the answer; the token is read anew because Kubernetes rotates it.
func (c *cluster) call(ctx context.Context, method, path string, body, into any) error {
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Content-Type", "application/merge-patch+json")
	answer, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// rulesOf turns the Ingresses of a class into rules. What refers to a Service or port that is not there is left out.
func rulesOf(ingresses []ingress, services map[string]service, class string) []rule {
	var rules []rule
	add := func(i ingress, host, path string, exact bool, b backend) {
		if target := targetOf(services[i.Metadata.Namespace+"/"+b.Service.Name], b.Service.Port); target != "" {
			rules = append(rules, rule{host, path, exact, target})
		}
	}
	for _, i := range ingresses {
		if i.Spec.IngressClassName != class {
			continue
		}
		if i.Spec.DefaultBackend != nil {
			add(i, "", "/", false, *i.Spec.DefaultBackend)
		}
		for _, r := range i.Spec.Rules {
			if r.HTTP == nil {
				continue
			}
			for _, p := range r.HTTP.Paths {
				add(i, r.Host, p.Path, p.PathType == "Exact", p.Backend)
			}
		}
	}
	return rules
}

func targetOf(s service, wanted servicePort) string {
	for _, port := range s.Spec.Ports {
		if port.Port == wanted.Number || wanted.Name != "" && port.Name == wanted.Name {
			return net.JoinHostPort(s.Spec.ClusterIP, fmt.Sprint(port.Port))
		}
	}
	return ""
}
