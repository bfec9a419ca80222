package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/mpi4go/mpi4go/mpicomm"
)

// environment is what the figures of a run depend on.
type environment struct {
	Version     string            `json:"mpi4go"`
	MPI         string            `json:"mpi"` // name and version
	Library     string            `json:"mpi_library"`
	Family      string            `json:"mpi_family"`
	Standard    string            `json:"mpi_standard"`
	Transport   string            `json:"transport"`
	Launcher    string            `json:"launcher"`
	ThreadLevel string            `json:"thread_level"`
	Ranks       int               `json:"ranks"`
	RanksHere   int               `json:"ranks_on_host"`
	Binding     string            `json:"binding"` // of the rank that prints
	GOMAXPROCS  string            `json:"gomaxprocs"`
	Quirks      []string          `json:"quirks"`
	Settings    map[string]string `json:"settings"` // MPI4GO_ variable: value in force
	Host        string            `json:"host"`
	CPU         string            `json:"cpu"`
	Device      string            `json:"device,omitempty"` // of the rank that prints, if it uses one
	Cores       int               `json:"cores"`
	GoVersion   string            `json:"go"`
	GOOS        string            `json:"goos"`
	GOARCH      string            `json:"goarch"`
	CommandLine string            `json:"command_line"`
}

func newEnvironment(info mpicomm.Environment) environment {
	e := environment{
		Version:     info.Version,
		MPI:         info.LibraryVersion,
		Library:     info.Library,
		Family:      info.Family,
		Standard:    info.Standard,
		Transport:   info.Transport,
		Launcher:    info.Launcher,
		ThreadLevel: info.ThreadLevel.String(),
		Ranks:       info.Size,
		RanksHere:   info.LocalSize,
		Binding:     info.Binding,
		GOMAXPROCS:  info.GOMAXPROCS,
		Quirks:      append([]string{}, info.Quirks...),
		Settings:    map[string]string{},
		CPU:         cpuModel(),
		Cores:       cores(),
		GoVersion:   runtime.Version(),
		GOOS:        runtime.GOOS,
		GOARCH:      runtime.GOARCH,
		CommandLine: commandLine(),
	}
	e.Host, _ = os.Hostname() // "" says it too
	for _, s := range info.Settings {
		e.Settings[s.Env] = s.Value
	}
	return e
}

func commandLine() string { return quote(append([]string{"pingpong"}, os.Args[1:]...)) }

// lines are what a reader of the figures should know first.
func (e environment) lines() []string {
	return []string{
		fmt.Sprintf("mpi4go %s, %s, %s/%s", e.Version, e.GoVersion, e.GOOS, e.GOARCH),
		fmt.Sprintf("MPI: %s, %s", e.MPI, e.Library),
		"transport: " + e.Transport,
		fmt.Sprintf("launcher: %s, %d ranks, %d on this host", e.Launcher, e.Ranks, e.RanksHere),
		"binding: " + e.Binding,
		"GOMAXPROCS: " + e.GOMAXPROCS,
		fmt.Sprintf("cpu: %s, %d cores", e.CPU, e.Cores),
		"command: " + e.CommandLine,
	}
}

// cpuModel is the name that the processor gives itself.
func cpuModel() string {
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(cpus)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
