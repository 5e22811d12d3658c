package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"k8s.io/kubernetes/test/e2e/framework"
)

var (
	// limits are the reasons to skip tests, by their names without marks in brackets.
	limits map[string]string
	mark   = regexp.MustCompile(`\[[^\]]*\]`)
)

func readLimits(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, &limits)
}

func init() {
	framework.NewFrameworkExtensions = append(framework.NewFrameworkExtensions, func(*framework.Framework) {
		ginkgo.BeforeEach(func() {
			name := strings.Fields(mark.ReplaceAllString(ginkgo.CurrentSpecReport().FullText(), " "))
			if reason, limited := limits[strings.Join(name, " ")]; limited {
				ginkgo.Skip(reason)
			}
		})
	})
}
