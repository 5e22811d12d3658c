package main

import (
	"encoding/json"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

const mostOfMessage = 4000 // bytes; the log has all of it

// line is what is told. Total is in the first line alone, Name in all others.
type line struct {
	Total   int     `json:"total,omitempty"`
	Name    string  `json:"name,omitempty"`
	Group   string  `json:"group,omitempty"`
	State   string  `json:"state"`
	Seconds float64 `json:"seconds,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Each process of ginkgo has these; a line is one write, and writes of several processes don't mix.
func tell(path string, what line) {
	if len(what.Message) > mostOfMessage {
		what.Message = what.Message[:mostOfMessage]
	}
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(text, '\n')); err != nil {
		panic(err)
	}
}

func of(report ginkgo.SpecReport, state string) line {
	group := ""
	if len(report.ContainerHierarchyTexts) > 0 {
		group = report.ContainerHierarchyTexts[0]
	}
	return line{Name: report.FullText(), Group: group, State: state}
}

// tellOf adds to a file when a test begins and when it ends.
func tellOf(path string) {
	ginkgo.ReportBeforeSuite(func(report ginkgo.Report) {
		tell(path, line{Total: report.PreRunStats.SpecsThatWillRun, State: "planned"})
	})
	ginkgo.ReportBeforeEach(func(report ginkgo.SpecReport) {
		if report.State == types.SpecStateInvalid { // not decided yet: it will run
			tell(path, of(report, "running"))
		}
	})
	ginkgo.ReportAfterEach(func(report ginkgo.SpecReport) {
		if report.State == types.SpecStatePending || (report.State == types.SpecStateSkipped && report.Failure.Message == "") {
			return // not chosen
		}
		ended := of(report, report.State.String())
		ended.Seconds = report.RunTime.Seconds()
		ended.Message = report.Failure.Message
		tell(path, ended)
	})
}
