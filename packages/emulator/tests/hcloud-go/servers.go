package main

import (
	"net"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

const publicKey = "ssh-ed25519 " +
	"AAAAC3NzaC1lZDI1NTE5AAAAIDlzUOKiDxUmMbMXZPvFdYWhZPGUBsfIAzmyFAxRPBYN someone"

func block(text string) *net.IPNet {
	_, found, err := net.ParseCIDR(text)
	want(err == nil, "%v", err)
	return found
}

// network is a new one with a subnet.
func (a *asker) network() *hcloud.Network {
	network := got(a.Network.Create(a, hcloud.NetworkCreateOpts{Name: "network", IPRange: block("10.0.0.0/8")}))
	subnet := hcloud.NetworkSubnet{
		Type: hcloud.NetworkSubnetTypeCloud, NetworkZone: hcloud.NetworkZoneEUCentral, IPRange: block("10.0.1.0/24"),
	}
	a.act(a.Network.AddSubnet(a, network, hcloud.NetworkAddSubnetOpts{Subnet: subnet}))
	return network
}

func servers(a *asker) {
	key := got(a.SSHKey.Create(a, hcloud.SSHKeyCreateOpts{Name: "key", PublicKey: publicKey}))
	want(got(a.SSHKey.GetByFingerprint(a, key.Fingerprint)).ID == key.ID, "another key has this fingerprint")
	group := got(a.PlacementGroup.Create(a, hcloud.PlacementGroupCreateOpts{
		Name: "group", Type: hcloud.PlacementGroupTypeSpread,
	})).PlacementGroup
	network := a.network()
	server := a.server(hcloud.ServerCreateOpts{
		SSHKeys:        []*hcloud.SSHKey{key},
		PlacementGroup: group,
		Networks:       []*hcloud.Network{network},
		Labels:         map[string]string{"role": "web"},
	})
	want(server.Status == hcloud.ServerStatusRunning, "the server is %s", server.Status)
	want(server.PlacementGroup.ID == group.ID, "it is in another group")
	want(len(server.PrivateNet) == 1 && block("10.0.1.0/24").Contains(server.PrivateNet[0].IP), "it is in no network")
	want(server.PublicNet.IPv4.IP.To4() != nil && server.PublicNet.IPv6.Network != nil, "it has no public addresses")
	chosen, err := a.Server.AllWithOpts(a, hcloud.ServerListOpts{ListOpts: hcloud.ListOpts{LabelSelector: "role=web"}})
	want(err == nil && len(chosen) == 1 && chosen[0].ID == server.ID, "it is not found by its label: %v", err)
	want(got(a.Server.Update(a, server, hcloud.ServerUpdateOpts{Name: "other"})).Name == "other", "it keeps its name")
	want(got(a.Server.Get(a, "other")).ID == server.ID, "it is not found by its name")

	route := hcloud.NetworkRoute{Destination: block("192.168.0.0/16"), Gateway: server.PrivateNet[0].IP}
	a.act(a.Network.AddRoute(a, network, hcloud.NetworkAddRouteOpts{Route: route}))
	network = got(a.Network.GetByID(a, network.ID))
	want(len(network.Routes) == 1 && network.Routes[0].Gateway.Equal(route.Gateway), "the network has no route")
	want(len(network.Servers) == 1 && network.Servers[0].ID == server.ID, "the network has no server")
	alias := hcloud.ServerChangeAliasIPsOpts{Network: network, AliasIPs: []net.IP{net.ParseIP("10.0.1.100")}}
	a.act(a.Server.ChangeAliasIPs(a, server, alias))
	want(len(got(a.Server.GetByID(a, server.ID)).PrivateNet[0].Aliases) == 1, "it has no alias")
	a.act(a.Server.DetachFromNetwork(a, server, hcloud.ServerDetachFromNetworkOpts{Network: network}))
	a.act(a.Server.AttachToNetwork(a, server, hcloud.ServerAttachToNetworkOpts{Network: network, IP: net.ParseIP("10.0.1.9")}))
	refused[*hcloud.Action](hcloud.ErrorCodeServerAlreadyAttached)(
		a.Server.AttachToNetwork(a, server, hcloud.ServerAttachToNetworkOpts{Network: network}))

	protect(a, server)
	measure(a, server)
	a.act(a.Server.Poweroff(a, server))
	larger := hcloud.ServerChangeTypeOpts{ServerType: got(a.ServerType.Get(a, "cpx32"))}
	a.act(a.Server.ChangeType(a, server, larger))
	a.act(a.Server.RemoveFromPlacementGroup(a, server))
	a.act(a.Server.Poweron(a, server))
	a.act(a.Server.Reboot(a, server))
	server = got(a.Server.GetByID(a, server.ID))
	want(server.ServerType.Name == "cpx32" && server.PlacementGroup == nil, "its type or group is not changed")
	a.delete(server)
	_, err = a.PlacementGroup.Delete(a, group)
	want(err == nil, "%v", err)
	_, err = a.Network.Delete(a, network)
	want(err == nil, "%v", err)
	_, err = a.SSHKey.Delete(a, key)
	want(err == nil, "%v", err)
}

func protect(a *asker, server *hcloud.Server) {
	yes, no := hcloud.Ptr(true), hcloud.Ptr(false)
	a.act(a.Server.ChangeProtection(a, server, hcloud.ServerChangeProtectionOpts{Delete: yes, Rebuild: yes}))
	refused[*hcloud.ServerDeleteResult](hcloud.ErrorCodeProtected)(a.Server.DeleteWithResult(a, server))
	a.act(a.Server.ChangeProtection(a, server, hcloud.ServerChangeProtectionOpts{Delete: no, Rebuild: no}))
}

func measure(a *asker, server *hcloud.Server) {
	now := time.Now()
	found := got(a.Server.GetMetrics(a, server, hcloud.ServerGetMetricsOpts{
		Types: []hcloud.ServerMetricType{hcloud.ServerMetricCPU, hcloud.ServerMetricNetwork},
		Start: now.Add(-time.Minute),
		End:   now,
	}))
	want(found.TimeSeries["cpu"] != nil, "no load is measured: %v", found.TimeSeries)
	_, hasTraffic := found.TimeSeries["network.0.bandwidth.in"]
	want(hasTraffic, "no traffic is measured")
}

func snapshots(a *asker) {
	server := a.server(hcloud.ServerCreateOpts{})
	made := got(a.Server.CreateImage(a, server, &hcloud.ServerCreateImageOpts{
		Type: hcloud.ImageTypeSnapshot, Description: hcloud.Ptr("before"), Labels: map[string]string{"a": "b"},
	}))
	a.wait(made.Action)
	image := got(a.Image.GetByID(a, made.Image.ID))
	want(image.Status == hcloud.ImageStatusAvailable && image.Type == hcloud.ImageTypeSnapshot, "it is %s", image.Status)
	want(image.CreatedFrom.ID == server.ID && image.Description == "before", "it is of something else")
	listed, err := a.Image.AllWithOpts(a, hcloud.ImageListOpts{
		Type:         []hcloud.ImageType{hcloud.ImageTypeSnapshot},
		Architecture: []hcloud.Architecture{image.Architecture},
		ListOpts:     hcloud.ListOpts{LabelSelector: "a=b"},
	})
	want(err == nil && len(listed) == 1 && listed[0].ID == image.ID, "it is not listed: %v", err)
	image = got(a.Image.Update(a, image, hcloud.ImageUpdateOpts{Description: hcloud.Ptr("after")}))
	want(image.Description == "after", "it keeps its description")
	a.act(a.Image.ChangeProtection(a, image, hcloud.ImageChangeProtectionOpts{Delete: hcloud.Ptr(true)}))
	_, err = a.Image.Delete(a, image)
	want(hcloud.IsError(err, hcloud.ErrorCodeProtected), "%v although it is protected", err)
	a.act(a.Image.ChangeProtection(a, image, hcloud.ImageChangeProtectionOpts{Delete: hcloud.Ptr(false)}))

	a.wait(got(a.Server.RebuildWithResult(a, server, hcloud.ServerRebuildOpts{Image: image})).Action)
	want(got(a.Server.GetByID(a, server.ID)).Image.ID == image.ID, "the server was not rebuilt")
	a.act(a.Server.EnableBackup(a, server, ""))
	want(got(a.Server.GetByID(a, server.ID)).BackupWindow != "", "the server has no backups")
	backup := got(a.Server.CreateImage(a, server, &hcloud.ServerCreateImageOpts{Type: hcloud.ImageTypeBackup}))
	a.wait(backup.Action)
	want(got(a.Image.GetByID(a, backup.Image.ID)).BoundTo.ID == server.ID, "the backup is bound to another server")
	a.delete(server) // its backups go with it, and its snapshots stay
	gone(a.Image.GetByID(a, backup.Image.ID))
	again := a.server(hcloud.ServerCreateOpts{Image: image})
	want(again.Image.ID == image.ID, "it is of another image")
	a.delete(again)
	_, err = a.Image.Delete(a, image)
	want(err == nil, "%v", err)
	gone(a.Image.GetByID(a, image.ID))
}

func volumes(a *asker) {
	server := a.server(hcloud.ServerCreateOpts{})
	made := got(a.Volume.Create(a, hcloud.VolumeCreateOpts{
		Name: "data", Size: 10, Server: server, Automount: hcloud.Ptr(false),
		Format: hcloud.Ptr(hcloud.VolumeFormatExt4), Labels: map[string]string{"a": "b"},
	}))
	a.wait(append(made.NextActions, made.Action)...)
	volume := got(a.Volume.Get(a, "data"))
	want(volume.Status == hcloud.VolumeStatusAvailable && volume.LinuxDevice != "", "it isn't a device")
	want(volume.Server.ID == server.ID && volume.Location.Name == place.Name, "it is elsewhere")
	want(len(got(a.Server.GetByID(a, server.ID)).Volumes) == 1, "the server has no volume")
	refused[*hcloud.Action](hcloud.ErrorCodeVolumeAlreadyAttached)(a.Volume.Attach(a, volume, server))
	a.act(a.Volume.Resize(a, volume, 20))
	a.act(a.Volume.Detach(a, volume))
	volume = got(a.Volume.Update(a, volume, hcloud.VolumeUpdateOpts{Name: "other"}))
	want(volume.Name == "other" && volume.Size == 20 && volume.Server == nil, "it is not changed: %+v", volume)
	a.act(a.Volume.AttachWithOpts(a, volume, hcloud.VolumeAttachOpts{Server: server, Automount: hcloud.Ptr(true)}))
	a.act(a.Volume.ChangeProtection(a, volume, hcloud.VolumeChangeProtectionOpts{Delete: hcloud.Ptr(true)}))
	a.act(a.Volume.Detach(a, volume))
	_, err := a.Volume.Delete(a, volume)
	want(hcloud.IsError(err, hcloud.ErrorCodeProtected), "%v although it is protected", err)
	a.act(a.Volume.ChangeProtection(a, volume, hcloud.VolumeChangeProtectionOpts{Delete: hcloud.Ptr(false)}))
	_, err = a.Volume.Delete(a, volume)
	want(err == nil, "%v", err)
	gone(a.Volume.GetByID(a, volume.ID))

	free := got(a.Volume.Create(a, hcloud.VolumeCreateOpts{Name: "free", Size: 10, Location: place}))
	a.wait(free.Action)
	all, err := a.Volume.All(a)
	alone := func(volume *hcloud.Volume) bool { return volume.Server == nil }
	want(err == nil && len(all) == 1 && slices.ContainsFunc(all, alone), "it is not listed: %v", err)
}
