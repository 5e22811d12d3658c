package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// pair is a certificate for example.com that signs itself, and its key.
func pair() (certificate, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	want(err == nil, "%v", err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.com"}, DNSNames: []string{"example.com"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	want(err == nil, "%v", err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	want(err == nil, "%v", err)
	text := func(kind string, content []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	return text("CERTIFICATE", signed), text("PRIVATE KEY", encoded)
}

func (a *asker) uploaded(name string) *hcloud.Certificate {
	certificate, key := pair()
	return got(a.Certificate.Create(a, hcloud.CertificateCreateOpts{
		Name: name, Type: hcloud.CertificateTypeUploaded, Certificate: certificate, PrivateKey: key,
	}))
}

func certificates(a *asker) {
	uploaded := a.uploaded("uploaded")
	want(len(uploaded.DomainNames) == 1 && uploaded.DomainNames[0] == "example.com", "it is for %v", uploaded.DomainNames)
	want(uploaded.Fingerprint != "" && uploaded.NotValidAfter.After(time.Now()), "it is not valid")
	changed := got(a.Certificate.Update(a, uploaded, hcloud.CertificateUpdateOpts{
		Name: "other", Labels: map[string]string{"a": "b"},
	}))
	want(changed.Name == "other" && changed.Labels["a"] == "b", "it is not changed")
	want(got(a.Certificate.GetByName(a, "other")).ID == uploaded.ID, "it is not found by its name")
	_, err := a.Certificate.Delete(a, uploaded)
	want(err == nil, "%v", err)
	gone(a.Certificate.GetByID(a, uploaded.ID))

	managed := got(a.Certificate.CreateCertificate(a, hcloud.CertificateCreateOpts{
		Name: "managed", Type: hcloud.CertificateTypeManaged, DomainNames: []string{"example.com"},
	}))
	a.wait(managed.Action)
	found := got(a.Certificate.GetByID(a, managed.Certificate.ID))
	want(found.Type == hcloud.CertificateTypeManaged && !found.Status.IsFailed(), "it is %+v", found.Status)
	want(strings.HasPrefix(found.Certificate, "-----BEGIN CERTIFICATE-----"), "it has no certificate")
}

// balancer is a new load balancer.
func (a *asker) balancer() *hcloud.LoadBalancer {
	made := got(a.LoadBalancer.Create(a, hcloud.LoadBalancerCreateOpts{
		Name: "balancer", LoadBalancerType: got(a.LoadBalancerType.Get(a, "lb11")), Location: place,
		Algorithm: &hcloud.LoadBalancerAlgorithm{Type: hcloud.LoadBalancerAlgorithmTypeRoundRobin},
	}))
	a.wait(made.Action)
	return got(a.LoadBalancer.GetByID(a, made.LoadBalancer.ID))
}

func loadBalancers(a *asker) {
	server, balancer, certificate := a.server(hcloud.ServerCreateOpts{}), a.balancer(), a.uploaded("uploaded")
	a.act(a.LoadBalancer.AddServerTarget(a, balancer, hcloud.LoadBalancerAddServerTargetOpts{Server: server}))
	refused[*hcloud.Action](hcloud.ErrorCodeTargetAlreadyDefined)(
		a.LoadBalancer.AddServerTarget(a, balancer, hcloud.LoadBalancerAddServerTargetOpts{Server: server}))
	a.act(a.LoadBalancer.AddLabelSelectorTarget(a, balancer, hcloud.LoadBalancerAddLabelSelectorTargetOpts{Selector: "a"}))
	a.act(a.LoadBalancer.AddService(a, balancer, hcloud.LoadBalancerAddServiceOpts{
		Protocol: hcloud.LoadBalancerServiceProtocolHTTPS, ListenPort: hcloud.Ptr(443), DestinationPort: hcloud.Ptr(80),
		HTTP: &hcloud.LoadBalancerAddServiceOptsHTTP{
			Certificates: []*hcloud.Certificate{certificate}, RedirectHTTP: hcloud.Ptr(true),
			StickySessions: hcloud.Ptr(true), CookieName: hcloud.Ptr("C"), CookieLifetime: hcloud.Ptr(time.Hour),
		},
		HealthCheck: &hcloud.LoadBalancerAddServiceOptsHealthCheck{
			Protocol: hcloud.LoadBalancerServiceProtocolHTTP, Port: hcloud.Ptr(80), Retries: hcloud.Ptr(3),
			Interval: hcloud.Ptr(15 * time.Second), Timeout: hcloud.Ptr(10 * time.Second),
			HTTP: &hcloud.LoadBalancerAddServiceOptsHealthCheckHTTP{
				Path: hcloud.Ptr("/healthy"), StatusCodes: []string{"2??"}, TLS: hcloud.Ptr(false),
			},
		},
	}))
	balancer = got(a.LoadBalancer.GetByID(a, balancer.ID))
	want(len(balancer.Targets) == 2 && len(balancer.Services) == 1, "it has %v and %v", balancer.Targets, balancer.Services)
	service := balancer.Services[0]
	want(service.HTTP.RedirectHTTP && service.HTTP.CookieLifetime == time.Hour, "its service is %+v", service.HTTP)
	want(service.HTTP.Certificates[0].ID == certificate.ID, "it has another certificate")
	want(service.HealthCheck.Retries == 3 && service.HealthCheck.HTTP.Path == "/healthy", "it is checked otherwise")
	want(len(got(a.Certificate.GetByID(a, certificate.ID)).UsedBy) == 1, "the certificate is not in use")
	_, err := a.Certificate.Delete(a, certificate)
	want(hcloud.IsError(err, hcloud.ErrorCodeResourceInUse), "%v although it is used", err)
	a.act(a.LoadBalancer.UpdateService(a, balancer, 443, hcloud.LoadBalancerUpdateServiceOpts{
		DestinationPort: hcloud.Ptr(8080),
	}))
	service = got(a.LoadBalancer.GetByID(a, balancer.ID)).Services[0]
	want(service.DestinationPort == 8080 && service.HTTP.RedirectHTTP, "more than its port was changed")
	a.act(a.LoadBalancer.ChangeType(a, balancer, hcloud.LoadBalancerChangeTypeOpts{
		LoadBalancerType: got(a.LoadBalancerType.Get(a, "lb21")),
	}))
	a.act(a.LoadBalancer.ChangeAlgorithm(a, balancer, hcloud.LoadBalancerChangeAlgorithmOpts{
		Type: hcloud.LoadBalancerAlgorithmTypeLeastConnections,
	}))
	a.act(a.LoadBalancer.DeleteService(a, balancer, 443))
	a.act(a.LoadBalancer.RemoveServerTarget(a, balancer, server))
	a.act(a.LoadBalancer.RemoveLabelSelectorTarget(a, balancer, "a"))
	_, _, err = a.LoadBalancer.DisablePublicInterface(a, balancer)
	want(hcloud.IsError(err, hcloud.ErrorCodeLoadBalancerNotAttachedToNetwork), "%v although it is in no network", err)
	network := a.network()
	a.act(a.LoadBalancer.AttachToNetwork(a, balancer, hcloud.LoadBalancerAttachToNetworkOpts{Network: network}))
	a.act(a.LoadBalancer.DisablePublicInterface(a, balancer))
	balancer = got(a.LoadBalancer.GetByID(a, balancer.ID))
	want(len(balancer.Targets)+len(balancer.Services) == 0 && !balancer.PublicNet.Enabled, "it is %+v", balancer)
	want(len(balancer.PrivateNet) == 1 && balancer.PrivateNet[0].Network.ID == network.ID, "it is in no network")
	a.act(a.LoadBalancer.EnablePublicInterface(a, balancer))
	a.act(a.LoadBalancer.DetachFromNetwork(a, balancer, hcloud.LoadBalancerDetachFromNetworkOpts{Network: network}))
	a.wait(got(a.LoadBalancer.DeleteWithResult(a, balancer)).Action)
	gone(a.LoadBalancer.GetByID(a, balancer.ID))
}

func firewalls(a *asker) {
	server := a.server(hcloud.ServerCreateOpts{Labels: map[string]string{"role": "web"}})
	rule := hcloud.FirewallRule{
		Direction: hcloud.FirewallRuleDirectionIn, Protocol: hcloud.FirewallRuleProtocolTCP, Port: hcloud.Ptr("80-85"),
		SourceIPs: []net.IPNet{*block("0.0.0.0/0"), *block("::/0")},
	}
	chosen := hcloud.FirewallResource{
		Type: hcloud.FirewallResourceTypeLabelSelector, LabelSelector: &hcloud.FirewallResourceLabelSelector{Selector: "role=web"},
	}
	made := got(a.Firewall.Create(a, hcloud.FirewallCreateOpts{
		Name: "wall", Rules: []hcloud.FirewallRule{rule}, ApplyTo: []hcloud.FirewallResource{chosen},
	}))
	a.wait(made.Actions...)
	wall := got(a.Firewall.GetByName(a, "wall"))
	want(*wall.Rules[0].Port == "80-85" && len(wall.Rules[0].SourceIPs) == 2, "it has the rules %+v", wall.Rules)
	want(len(wall.AppliedTo) == 1 && len(wall.AppliedTo[0].AppliedToResources) == 1, "it is applied to %+v", wall.AppliedTo)
	applied := got(a.Server.GetByID(a, server.ID)).PublicNet.Firewalls
	want(len(applied) == 1 && applied[0].Status == hcloud.FirewallStatusApplied, "the server has no firewall")
	a.wait(got(a.Firewall.SetRules(a, wall, hcloud.FirewallSetRulesOpts{Rules: []hcloud.FirewallRule{}}))...)
	_, err := a.Firewall.Delete(a, wall)
	want(hcloud.IsError(err, hcloud.ErrorCodeResourceInUse), "%v although it is applied", err)
	a.wait(got(a.Firewall.RemoveResources(a, wall, []hcloud.FirewallResource{chosen}))...)
	direct := hcloud.FirewallResource{
		Type: hcloud.FirewallResourceTypeServer, Server: &hcloud.FirewallResourceServer{ID: server.ID},
	}
	a.wait(got(a.Firewall.ApplyResources(a, wall, []hcloud.FirewallResource{direct}))...)
	a.wait(got(a.Firewall.RemoveResources(a, wall, []hcloud.FirewallResource{direct}))...)
	wall = got(a.Firewall.GetByID(a, wall.ID))
	want(len(wall.Rules)+len(wall.AppliedTo) == 0, "it is not empty")
	_, err = a.Firewall.Delete(a, wall)
	want(err == nil, "%v", err)
	gone(a.Firewall.GetByID(a, wall.ID))
}

func zones(a *asker) {
	made := got(a.Zone.Create(a, hcloud.ZoneCreateOpts{
		Name: "example.com", Mode: hcloud.ZoneModePrimary, TTL: hcloud.Ptr(3600),
		RRSets: []hcloud.ZoneCreateOptsRRSet{{
			Name: "www", Type: hcloud.ZoneRRSetTypeA, Records: []hcloud.ZoneRRSetRecord{{Value: "198.51.100.1"}},
		}},
	}))
	a.wait(made.Action)
	zone := got(a.Zone.Get(a, "example.com"))
	want(zone.ID == made.Zone.ID && zone.TTL == 3600 && len(zone.AuthoritativeNameservers.Assigned) > 0, "it is %+v", zone)
	set := got(a.Zone.GetRRSetByNameAndType(a, zone, "www", hcloud.ZoneRRSetTypeA))
	want(set.ID == "www/A" && set.TTL == nil && set.Records[0].Value == "198.51.100.1", "it has the records %+v", set)
	second := []hcloud.ZoneRRSetRecord{{Value: "198.51.100.2", Comment: "second"}}
	a.act(a.Zone.AddRRSetRecords(a, set, hcloud.ZoneRRSetAddRecordsOpts{Records: second}))
	a.act(a.Zone.ChangeRRSetTTL(a, set, hcloud.ZoneRRSetChangeTTLOpts{TTL: hcloud.Ptr(60)}))
	set = got(a.Zone.GetRRSetByID(a, zone, "www/A"))
	want(len(set.Records) == 2 && *set.TTL == 60, "it has the records %+v", set)
	a.act(a.Zone.RemoveRRSetRecords(a, set, hcloud.ZoneRRSetRemoveRecordsOpts{Records: second}))
	a.act(a.Zone.SetRRSetRecords(a, set, hcloud.ZoneRRSetSetRecordsOpts{Records: second}))
	sets, err := a.Zone.AllRRSetsWithOpts(a, zone, hcloud.ZoneRRSetListOpts{Type: []hcloud.ZoneRRSetType{"A", "AAAA"}})
	want(err == nil && len(sets) == 1 && sets[0].Records[0].Comment == "second", "it has the records %+v, %v", sets, err)
	a.act(a.Zone.ChangeTTL(a, zone, hcloud.ZoneChangeTTLOpts{TTL: 7200}))
	exported := got(a.Zone.ExportZonefile(a, zone)).Zonefile
	want(strings.Contains(exported, "198.51.100.2"), "it is exported as %s", exported)
	a.act(a.Zone.ImportZonefile(a, zone, hcloud.ZoneImportZonefileOpts{
		Zonefile: strings.ReplaceAll(exported, "198.51.100.2", "198.51.100.3"),
	}))
	set = got(a.Zone.GetRRSetByID(a, zone, "www/A"))
	want(set.Records[0].Value == "198.51.100.3", "it has the records %+v", set)
	a.wait(got(a.Zone.DeleteRRSet(a, set)).Action)
	gone(a.Zone.GetRRSetByID(a, zone, "www/A"))
	a.wait(got(a.Zone.Delete(a, zone)).Action)
	gone(a.Zone.GetByID(a, zone.ID))
}
