// Kubernetes' own end-to-end tests as one program, for ginkgo to run: all that are in its e2e.test. Beside what
// that does, it tells of each test when it begins and when it ends, and deletes servers by the Hetzner Cloud API.
package main

import (
	"flag"
	"fmt"
	"os"
	"testing"

	conformancetestdata "k8s.io/kubernetes/test/conformance/testdata"
	"k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/e2e/feature"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	testfixtures "k8s.io/kubernetes/test/fixtures"

	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/architecture"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/autoscaling"
	_ "k8s.io/kubernetes/test/e2e/common"
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/invariants"
	"k8s.io/kubernetes/test/e2e/invariants/logcheck"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"
	_ "k8s.io/kubernetes/test/e2e/storage/csimock"
	_ "k8s.io/kubernetes/test/e2e/storage/external"
	_ "k8s.io/kubernetes/test/e2e/windows"

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/utils/ktesting/format"
)

func main() {
	testing.Init() // ginkgo sets flags of go test
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	logcheck.RegisterFlags(flag.CommandLine)
	tells := flag.String("tell", "", "file to which a line of JSON is added when a test begins or ends")
	skipped := flag.String("limits", "", "file with a JSON object: names of tests without marks in brackets, and why to skip them")
	deletes := flag.Bool("deletes-servers", false, "run the tests that only clouds with DeleteNode run")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "unknown arguments: %s\n", flag.Args())
		os.Exit(2)
	}
	if *skipped != "" {
		if err := readLimits(*skipped); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(testfixtures.GetTestFixturesFS())
	testfiles.AddFileSource(conformancetestdata.GetConformanceTestdataFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	if *deletes {
		// Those tests skip themselves unless the cloud has one of two names.
		framework.TestContext.Provider = "aws"
		framework.TestContext.CloudConfig.Provider = cloud{}
	}
	all := func(_, _ string) (bool, error) { return true, nil }
	// Not before: AfterReadingAllFlags goes through all tests once without running them, and ginkgo forgets
	// then what was asked for outside of containers.
	if *tells != "" {
		tellOf(*tells)
	}
	testing.Main(all, []testing.InternalTest{{Name: "TestE2E", F: e2e.RunE2ETests}}, nil, nil)
}
