package main

import "testing"

func TestTheMostParticularRuleWins(t *testing.T) {
	table := newTable([]rule{
		{path: "/", target: "any"},
		{host: "*.shop.example", path: "/", target: "wildcard"},
		{host: "a.shop.example", path: "/", target: "host"},
		{host: "a.shop.example", path: "/api", target: "api"},
		{host: "a.shop.example", path: "/api/v2/", target: "v2"},
		{host: "a.shop.example", path: "/api", exact: true, target: "exact"},
	})
	for _, c := range []struct{ host, path, target string }{
		{"other.example", "/x", "any"},
		{"b.shop.example", "/", "wildcard"},
		{"c.b.shop.example", "/", "any"},
		{"shop.example", "/", "any"},
		{"a.shop.example:8080", "/", "host"},
		{"A.Shop.Example", "/apis", "host"},
		{"a.shop.example", "/api", "exact"},
		{"a.shop.example", "/api/", "api"},
		{"a.shop.example", "/api/v1", "api"},
		{"a.shop.example", "/api/v2", "v2"},
		{"a.shop.example", "/api/v2/z", "v2"},
	} {
		if got := table.find(c.host, c.path); got != c.target {
			t.Errorf("%s%s goes to %q, not to %q", c.host, c.path, got, c.target)
		}
	}
}

func TestWhatNoRuleWantsGoesNowhere(t *testing.T) {
	table := newTable([]rule{{host: "a.example", path: "/only", target: "x"}})
	for _, at := range [][2]string{{"b.example", "/only"}, {"a.example", "/"}, {"a.example", "/onlyme"}, {"", "/only"}} {
		if got := table.find(at[0], at[1]); got != "" {
			t.Errorf("%v goes to %q", at, got)
		}
	}
}

func TestRulesOfIngresses(t *testing.T) {
	ingresses := list[ingress]{Items: []ingress{wanted("mine", "web", "http"), wanted("other", "web", "http"), wanted("mine", "gone", "http"), wanted("mine", "web", "no-such")}}
	services := map[string]service{"shop/web": {Spec: serviceSpec{ClusterIP: "10.43.0.7", Ports: []servicePort{{Name: "http", Port: 80}}}}}
	rules := rulesOf(ingresses.Items, services, "mine")
	if len(rules) != 1 || rules[0].target != "10.43.0.7:80" || rules[0].path != "/x" {
		t.Errorf("%v", rules)
	}
}

func wanted(class, serviceName, port string) ingress {
	var i ingress
	i.Metadata.Namespace = "shop"
	i.Spec.IngressClassName = class
	backend := backend{Service: backendService{Name: serviceName, Port: servicePort{Name: port}}}
	i.Spec.Rules = []ingressRule{{HTTP: &paths{Paths: []ingressPath{{Path: "/x", PathType: "Prefix", Backend: backend}}}}}
	return i
}
