package main

import (
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

func floatingIPs(a *asker) {
	server := a.server(hcloud.ServerCreateOpts{})
	made := got(a.FloatingIP.Create(a, hcloud.FloatingIPCreateOpts{
		Type: hcloud.FloatingIPTypeIPv4, HomeLocation: place, Name: hcloud.Ptr("moves"),
	}))
	want(made.Action == nil, "an unassigned address has an action")
	address := made.FloatingIP
	want(address.IP.To4() != nil && address.Server == nil, "it is %v", address.IP)
	a.act(a.FloatingIP.Assign(a, address, server))
	address = got(a.FloatingIP.Get(a, "moves"))
	want(address.Server.ID == server.ID, "it is not assigned")
	listed := got(a.Server.GetByID(a, server.ID)).PublicNet.FloatingIPs
	want(len(listed) == 1 && listed[0].ID == address.ID, "the server does not have it")
	a.act(a.FloatingIP.Unassign(a, address))
	address = got(a.FloatingIP.Update(a, address, hcloud.FloatingIPUpdateOpts{Description: "spare", Name: "other"}))
	want(address.Server == nil && address.Description == "spare" && address.Name == "other", "it is not changed")
	a.act(a.FloatingIP.ChangeProtection(a, address, hcloud.FloatingIPChangeProtectionOpts{Delete: hcloud.Ptr(true)}))
	_, err := a.FloatingIP.Delete(a, address)
	want(hcloud.IsError(err, hcloud.ErrorCodeProtected), "%v although it is protected", err)
	a.act(a.FloatingIP.ChangeProtection(a, address, hcloud.FloatingIPChangeProtectionOpts{Delete: hcloud.Ptr(false)}))
	_, err = a.FloatingIP.Delete(a, address)
	want(err == nil, "%v", err)
	gone(a.FloatingIP.GetByID(a, address.ID))

	made = got(a.FloatingIP.Create(a, hcloud.FloatingIPCreateOpts{Type: hcloud.FloatingIPTypeIPv6, Server: server}))
	a.wait(made.Action)
	six := got(a.FloatingIP.GetByID(a, made.FloatingIP.ID))
	want(six.Network != nil && six.Network.Contains(six.IP) && six.HomeLocation.Name == place.Name, "it is %+v", six)
}

func primaryIPs(a *asker) {
	address := got(a.PrimaryIP.Create(a, hcloud.PrimaryIPCreateOpts{
		Name: "kept", Type: hcloud.PrimaryIPTypeIPv4, AssigneeType: "server", Location: place.Name,
		AutoDelete: hcloud.Ptr(false), Labels: map[string]string{"a": "b"},
	})).PrimaryIP
	want(got(a.PrimaryIP.GetByIP(a, address.IP.String())).ID == address.ID, "it is not found by itself")
	server := a.server(hcloud.ServerCreateOpts{
		PublicNet: &hcloud.ServerCreatePublicNet{EnableIPv4: true, IPv4: address},
	})
	want(server.PublicNet.IPv4.IP.Equal(address.IP) && server.PublicNet.IPv6.Network == nil, "it has other addresses")
	refused[*hcloud.Action](hcloud.ErrorCodeServerNotStopped)(a.PrimaryIP.Unassign(a, address.ID))
	a.act(a.Server.Poweroff(a, server))
	a.act(a.PrimaryIP.Unassign(a, address.ID))
	a.act(a.PrimaryIP.Assign(a, hcloud.PrimaryIPAssignOpts{
		ID: address.ID, AssigneeID: server.ID, AssigneeType: "server",
	}))
	want(got(a.PrimaryIP.GetByName(a, "kept")).AssigneeID == server.ID, "it is not assigned")
	a.act(a.PrimaryIP.ChangeProtection(a, hcloud.PrimaryIPChangeProtectionOpts{ID: address.ID, Delete: true}))
	a.delete(server)
	address = got(a.PrimaryIP.GetByID(a, address.ID))
	want(address.AssigneeID == 0 && address.Labels["a"] == "b", "it has not outlived its server as it was")
	a.act(a.PrimaryIP.ChangeProtection(a, hcloud.PrimaryIPChangeProtectionOpts{ID: address.ID}))
	_, err := a.PrimaryIP.Delete(a, address)
	want(err == nil, "%v", err)
	gone(a.PrimaryIP.GetByID(a, address.ID))
}
