// Command hcloud-go asks a Hetzner Cloud API what Hetzner's own client for Go asks, one scenario a run.
//
// It ends with 1 and a line that says what was wrong as soon as an answer is not what that client's users count on.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// The servers of all scenarios are in one place.
var place = &hcloud.Location{Name: "fsn1"}

var scenarios = map[string]func(*asker){
	"certificates":   certificates,
	"firewalls":      firewalls,
	"floating-ips":   floatingIPs,
	"load-balancers": loadBalancers,
	"primary-ips":    primaryIPs,
	"servers":        servers,
	"snapshots":      snapshots,
	"volumes":        volumes,
	"zones":          zones,
}

// asker is a client, and what all scenarios do with it.
type asker struct {
	*hcloud.Client
	context.Context
}

func main() {
	scenario := scenarios[strings.Join(os.Args[1:], " ")]
	if scenario == nil {
		names := make([]string, 0, len(scenarios))
		for name := range scenarios {
			names = append(names, name)
		}
		slices.Sort(names)
		fail("give one of: %s", strings.Join(names, ", "))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := hcloud.NewClient(
		hcloud.WithEndpoint(os.Getenv("HCLOUD_ENDPOINT")),
		hcloud.WithToken(os.Getenv("HCLOUD_TOKEN")),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(50 * time.Millisecond)}),
	)
	scenario(&asker{client, ctx})
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

// want ends the program unless what was found is as said.
func want(found bool, format string, arguments ...any) {
	if !found {
		fail(format, arguments...)
	}
}

// got is an answer without its error, which would end the program.
func got[T any](value T, _ *hcloud.Response, err error) T {
	want(err == nil, "%v", err)
	return value
}

// gone checks that an object is deleted.
func gone[T any](value *T, _ *hcloud.Response, err error) {
	want(err == nil && value == nil, "still there: %v, %v", value, err)
}

// refused makes sure that a request was answered with a certain error.
func refused[T any](code hcloud.ErrorCode) func(T, *hcloud.Response, error) {
	return func(_ T, _ *hcloud.Response, err error) {
		want(hcloud.IsError(err, code), "%v where %s was wanted", err, code)
	}
}

// wait for actions, all in one listing.
func (a *asker) wait(actions ...*hcloud.Action) {
	want(!slices.Contains(actions, nil), "an action is missing")
	if err := a.Action.WaitFor(a, actions...); err != nil {
		fail("%v", err)
	}
}

// act waits for the action in an answer.
func (a *asker) act(action *hcloud.Action, _ *hcloud.Response, err error) {
	want(err == nil, "%v", err)
	a.wait(action)
}

// server is a new one that runs.
func (a *asker) server(opts hcloud.ServerCreateOpts) *hcloud.Server {
	kind := got(a.ServerType.Get(a, "cpx22"))
	opts.Name = "server"
	opts.ServerType = kind
	opts.Location = place
	if opts.Image == nil {
		opts.Image = got(a.Image.GetForArchitecture(a, "debian-12", kind.Architecture))
	}
	made := got(a.Server.Create(a, opts))
	a.wait(append(made.NextActions, made.Action)...)
	return got(a.Server.GetByID(a, made.Server.ID))
}

// delete a server, and check that it is deleted.
func (a *asker) delete(server *hcloud.Server) {
	a.wait(got(a.Server.DeleteWithResult(a, server)).Action)
	gone(a.Server.GetByID(a, server.ID))
}
