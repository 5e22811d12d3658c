// Whoami answers every request with what it knows about itself and the request: the workload of the examples.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// answer is what a client sees; JSON when it asks for it, lines of text otherwise.
type answer struct {
	Hostname string              `json:"hostname"`
	Node     string              `json:"node,omitempty"`
	Client   string              `json:"client"`
	Method   string              `json:"method"`
	Host     string              `json:"host"`
	Path     string              `json:"path"`
	Headers  map[string][]string `json:"headers"`
}

func whoami(w http.ResponseWriter, r *http.Request) {
	hostname, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	a := answer{hostname, os.Getenv("NODE_NAME"), r.RemoteAddr, r.Method, r.Host, r.URL.RequestURI(), r.Header}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(a); err != nil {
			log.Print(err)
		}
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "Hostname: %s\nNode: %s\nClient: %s\n%s %s %s\nHost: %s\n", a.Hostname, a.Node, a.Client, a.Method, a.Path, r.Proto, a.Host)
	if err := r.Header.Write(w); err != nil {
		log.Print(err)
	}
}

func main() {
	address := ":8080"
	if port := os.Getenv("PORT"); port != "" {
		address = ":" + port
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", whoami)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
