// Ingress is an ingress controller of two pages, for the examples: it shows that one is a Deployment behind a Service of
// type LoadBalancer. It forwards plain HTTP as the Ingresses of its class say, and writes the load balancer's address
// into their status. In production use one that does TLS and watches instead of asking every two seconds.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"net/http/httputil"
	"os"
	"os/signal"
	"reflect"
	"sync/atomic"
	"syscall"
	"time"
)

const pause = 2 * time.Second

// A controller keeps the table as the cluster wants it.
type controller struct {
	cluster *cluster
	class   string // of the Ingresses that are ours
	service string // namespace/name of the Service that we are behind
	table   atomic.Pointer[table]
}

// refresh looks at the cluster once.
func (c *controller) refresh(ctx context.Context) error {
	var ingresses list[ingress]
	if err := c.cluster.call(ctx, "GET", "/apis/networking.k8s.io/v1/ingresses", nil, &ingresses); err != nil {
		return err
	}
	var found list[service]
	if err := c.cluster.call(ctx, "GET", "/api/v1/services", nil, &found); err != nil {
		return err
	}
	services := map[string]service{}
	for _, s := range found.Items {
		services[s.Metadata.Namespace+"/"+s.Metadata.Name] = s
	}
	fresh := newTable(rulesOf(ingresses.Items, services, c.class))
	c.table.Store(&fresh)
	return c.publish(ctx, ingresses.Items, services[c.service].Status)
}

// publish writes our address into the Ingresses that don't have it.
func (c *controller) publish(ctx context.Context, ingresses []ingress, ours status) error {
	var failed error
	for _, i := range ingresses {
		if i.Spec.IngressClassName != c.class || reflect.DeepEqual(addresses(i.Status), addresses(ours)) {
			continue
		}
		path := "/apis/networking.k8s.io/v1/namespaces/" + i.Metadata.Namespace + "/ingresses/" + i.Metadata.Name + "/status"
		change := map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": addresses(ours)}}}
		failed = errors.Join(failed, c.cluster.call(ctx, "PATCH", path, change, &ingress{}))
	}
	return failed
}

func addresses(s status) []address {
	return append([]address{}, s.LoadBalancer.Ingress...)
}

func (c *controller) run(ctx context.Context) {
	for {
		if err := c.refresh(ctx); err != nil && ctx.Err() == nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// ServeHTTP forwards a request.
func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := ""
	if t := c.table.Load(); t != nil {
		target = t.find(r.Host, r.URL.Path)
	}
	if target == "" {
		http.Error(w, "no Ingress has a rule for this host and path", http.StatusNotFound)
		return
	}
	proxy := httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = "http", target
		p.Out.Host = p.In.Host
		p.SetXForwarded()
	}}
	proxy.ServeHTTP(w, r)
}

func (c *controller) ready(w http.ResponseWriter, _ *http.Request) {
	if c.table.Load() == nil {
		http.Error(w, "the cluster has not answered yet", http.StatusServiceUnavailable)
	}
}

func main() {
	cluster, err := inCluster()
	if err != nil {
		log.Fatal(err)
	}
	c := &controller{cluster: cluster, class: os.Getenv("INGRESS_CLASS"), service: os.Getenv("SERVICE")}
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go c.run(ended)
	health := &http.Server{Addr: ":8081", Handler: http.HandlerFunc(c.ready), ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Fatal(health.ListenAndServe()) }()
	server := &http.Server{Addr: ":8080", Handler: c, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ended.Done()
		// Open connections get a moment to end, so that a rolling update loses no request.
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(patience); err != nil {
			log.Print(err)
		}
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}
