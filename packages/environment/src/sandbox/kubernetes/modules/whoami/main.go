// Whoami stands in for the image docker.io/traefik/whoami, the workload of the examples: the same port, environment
// variables, paths and answers. Unlike the original it has no TLS, no /data and no /echo, and it ends on SIGTERM.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// longestWait bounds the parameter wait of a request.
const longestWait = time.Minute

// facts is what /api answers.
type facts struct {
	Hostname   string      `json:"hostname"`
	IP         []string    `json:"ip"`
	Headers    http.Header `json:"headers"`
	URL        string      `json:"url"`
	Host       string      `json:"host"`
	Method     string      `json:"method"`
	Name       string      `json:"name,omitempty"`
	RemoteAddr string      `json:"remoteAddr"`
}

// handler answers every path; name is printed where it is not empty.
func handler(name string) http.Handler {
	var health atomic.Int64
	health.Store(http.StatusOK)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { writeText(w, r, name) })
	mux.HandleFunc("/api", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		told(json.NewEncoder(w).Encode(factsOf(r, name)))
	})
	mux.HandleFunc("/bench", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "1") })
	mux.HandleFunc("POST /health", func(w http.ResponseWriter, r *http.Request) {
		var status int64
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64)).Decode(&status)
		if err != nil || status < 200 || status > 599 {
			http.Error(w, "the body must be a status code from 200 to 599", http.StatusBadRequest)
			return
		}
		health.Store(status)
	})
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(health.Load())) })
	return mux
}

// factsOf says what the program knows about itself and the request.
func factsOf(r *http.Request, name string) facts {
	hostname, err := os.Hostname()
	told(err)
	return facts{hostname, addresses(), r.Header, r.URL.RequestURI(), r.Host, r.Method, name, r.RemoteAddr}
}

// writeText answers as lines of text, the request as it came at the end, after the time that it asks for.
func writeText(w http.ResponseWriter, r *http.Request, name string) {
	if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil {
		select {
		case <-time.After(min(wait, longestWait)):
		case <-r.Context().Done():
		}
	}
	f := factsOf(r, name)
	if name != "" {
		fmt.Fprintln(w, "Name:", name)
	}
	fmt.Fprintln(w, "Hostname:", f.Hostname)
	for _, address := range f.IP {
		fmt.Fprintln(w, "IP:", address)
	}
	fmt.Fprintln(w, "RemoteAddr:", f.RemoteAddr)
	told(r.Write(w))
}

// addresses are those of all interfaces, without their prefix lengths.
func addresses() []string {
	found, err := net.InterfaceAddrs()
	told(err)
	texts := []string{}
	for _, address := range found {
		if network, ok := address.(*net.IPNet); ok {
			texts = append(texts, network.IP.String())
		}
	}
	return texts
}

func told(err error) {
	if err != nil {
		log.Print(err)
	}
}

func main() {
	port := flag.String("port", cmp.Or(os.Getenv("WHOAMI_PORT_NUMBER"), "80"), "port to listen on")
	name := flag.String("name", os.Getenv("WHOAMI_NAME"), "name to answer with")
	flag.Parse()
	server := &http.Server{Addr: ":" + *port, Handler: handler(*name), ReadHeaderTimeout: 10 * time.Second}
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ended.Done()
		// Open connections get a moment to end, so that a rolling update loses no request.
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		told(server.Shutdown(patience))
	}()
	log.Printf("Starting up on port %s", *port)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-done
}
