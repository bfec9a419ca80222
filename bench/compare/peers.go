package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Peer is one way to send messages that is measured.
type Peer struct {
	Name string `json:"name"` // way, or way@mpi
	Way  string `json:"way"`
	MPI  string `json:"mpi,omitempty"`
	Ours bool   `json:"ours,omitempty"`
	// Title says what is measured, Tuning what was set to make it fast.
	Title       string            `json:"title"`
	Tuning      string            `json:"tuning"`
	Command     string            `json:"command"` // of the last run, without the items
	Environment map[string]string `json:"environment,omitempty"`

	env        []string
	program    []string // the launcher's command line, or that of each process
	launched   bool     // by an MPI's launcher
	single     bool     // has one conversation
	candidates []candidate
}

// candidate is a tuning of which the fastest is taken.
type candidate struct {
	Text   string    `json:"tuning"`
	Us     []float64 `json:"us"` // 1 B latency, and a 1 MiB message
	Chosen bool      `json:"chosen"`
	env    []string
	args   []string
}

// overMPI returns a peer that an MPI's launcher starts.
func overMPI(m *mpi, way, title string, env []string, program ...string) *Peer {
	return &Peer{
		Name: over(way, m.name), Way: way, MPI: m.name, Title: title, Tuning: m.tuning,
		env: append(append([]string{}, m.env...), env...), program: m.start(program...), launched: true,
	}
}

// direct returns a peer of which two processes are started.
func direct(way, title, tuning string, program ...string) *Peer {
	return &Peer{Name: way, Way: way, Title: title, Tuning: tuning, program: program}
}

// cPeers are plain MPI in C, with each MPI that has headers.
func (p *preparation) cPeers() (peers []*Peer) {
	for _, m := range p.mpis {
		if !p.wants(over("c", m.name)) {
			continue
		}
		if m.mpicc == "" {
			p.gap(over("c", m.name), &failure{"mpicc", "this MPI has no headers here"})
			continue
		}
		program := filepath.Join(p.bin, "peer-"+m.name)
		if f := p.command(m.env, m.mpicc, "-O2", "-w", "-o", program, "bench/compare/peers/c/peer.c"); f != nil {
			p.gap(over("c", m.name), f)
			continue
		}
		peers = append(peers, overMPI(m, "c", "C: MPI_Send, MPI_Recv; windows and frames by MPI_Isend, MPI_Irecv", nil, program))
	}
	return peers
}

// goPeers are ours over each MPI, by the same binary, then gompi and sockets.
func (p *preparation) goPeers() (peers []*Peer) {
	program := filepath.Join(p.bin, "gopeer")
	if f := p.command(nil, goTool(), "build", "-o", program, "./bench/compare/peers/gopeer"); f != nil {
		p.gap("peers in Go", f)
		return nil
	}
	for n, way := range ourWays {
		mpis := p.mpis
		if n > 0 {
			mpis = p.someMPIs()
		}
		for _, m := range mpis {
			x := overMPI(m, way.name, way.title, []string{"MPI4GO_MPI=" + m.library}, program, way.name)
			x.Ours = true
			peers = append(peers, x)
		}
	}
	for _, m := range p.mpis {
		if m.name == "openmpi" && p.wants(over("gompi", m.name)) {
			if x := p.gompi(m); x != nil {
				peers = append(peers, x)
			}
		}
	}
	return append(peers,
		direct("tcp", "Go's net.TCPConn over 127.0.0.1; a connection for each conversation", "TCP_NODELAY, which is Go's default; writev for frames", program, "tcp"),
		direct("unix", "Go's Unix sockets; a connection for each conversation", "writev for frames", program, "unix"))
}

// someMPIs are those for ways that are not measured over all.
func (p *preparation) someMPIs() []*mpi {
	if p.o.EveryMPI {
		return p.mpis
	}
	return p.mpis[:min(2, len(p.mpis))]
}

// ourWays are the ways of this library, first the one that is measured over all MPIs.
var ourWays = []struct{ name, title string }{
	{"coro", "mpi4go: coro.Send, Recv; windows by mpicomm.DoAll, frames by coro.SendMessage"},
	{"conn", "mpi4go: transport.Conn, SendMessage and RecvMessageInto; a connection for each conversation"},
	{"netconn", "mpi4go: the net.Conn of a transport.Conn; a connection for each conversation"},
}

// goTool is the go command.
func goTool() string {
	if tool := os.Getenv("GO"); tool != "" {
		return tool
	}
	return "go"
}

// gompi is linked with Open MPI when it is built.
func (p *preparation) gompi(m *mpi) *Peer {
	program := filepath.Join(p.bin, "gopeer-gompi")
	var env []string
	for variable, show := range map[string]string{"CGO_CFLAGS": "--showme:compile", "CGO_LDFLAGS": "--showme:link"} {
		c := exec.CommandContext(p.ctx, m.mpicc, show)
		flags, err := c.CombinedOutput()
		if err != nil {
			p.gap("gompi", &failure{commandLine(nil, c.Args), lastLines(flags, err)})
			return nil
		}
		env = append(env, variable+"=-O2 "+strings.TrimSpace(string(flags)))
	}
	if f := p.command(env, goTool(), "build", "-tags", "gompi", "-o", program, "./bench/compare/peers/gopeer"); f != nil {
		p.gap("gompi", f)
		return nil
	}
	x := overMPI(m, "gompi", "gompi v0.2.0: SendBytes, RecvPreallocBytes, which block; windows and frames one by one", nil, program, "gompi")
	x.single = true
	return x
}

// pythonPeers are those in Python.
func (p *preparation) pythonPeers() (peers []*Peer) {
	script := func(name string) string {
		path, _ := filepath.Abs(filepath.Join("bench/compare/peers/python", name)) // the folder was there at the start
		return path
	}
	names := []string{"dask-tcp"}
	for _, m := range p.someMPIs() {
		names = append(names, over("mpi4py", m.name), over("mpi4dask", m.name))
	}
	if slices.ContainsFunc(names, p.wants) {
		python, f := p.pythonEnvironment("python", p.pip("mpi4py", "distributed", "numpy"), p.imports("mpi4py, distributed, numpy"))
		if f != nil {
			p.gap("mpi4py, MPI4Dask's way, Dask's tcp", f)
		} else {
			for _, m := range p.someMPIs() {
				x := overMPI(m, "mpi4py", "mpi4py: Send, Recv of buffers, which block; windows by Isend, Irecv, Waitall", m.mpi4py, python, script("mpi4py_blocking.py"))
				x.single = true
				peers = append(peers, x,
					overMPI(m, "mpi4dask", "MPI4Dask's way: mpi4py's Isend, Irecv, Test between asyncio.sleep(0)", m.mpi4py, python, script("mpi4dask.py")))
			}
			peers = append(peers, direct("dask-tcp", "Dask's distributed.comm over tcp://127.0.0.1, frames as to_serialize", "the defaults of distributed", python, script("dask_tcp.py")))
		}
	}
	if p.wants("ucxx-blocking") || p.wants("ucxx-polling") {
		python, f := p.pythonEnvironment("ucxx", p.pip("ucxx-cu12", "numpy"), p.imports("ucxx"))
		if f != nil {
			p.gap("UCXX", f)
		} else {
			peers = append(peers, ucx("ucxx", "ucxx", python, script("ucx.py"))...)
		}
	}
	if p.wants("ucx-py-blocking") || p.wants("ucx-py-polling") {
		origin := ""
		python, f := p.pythonEnvironment("ucx-py", p.pip("ucx-py-cu12", "numpy"), p.imports("ucp"))
		if f != nil {
			say("PyPI's ucx-py-cu12 cannot be installed: building %s", p.o.UCXPySource)
			built, g := p.pythonEnvironment("ucx-py-built", p.pip("libucx-cu12", "numpy"), p.buildUCXPy, p.imports("ucp"))
			if g != nil {
				p.gap("UCX-Py, the wheel of PyPI", f)
				p.gap("UCX-Py, built from its source", g)
			}
			python, f = built, g
			origin = ". PyPI's ucx-py-cu12 could not be installed, so UCX-Py was built from its source with the UCX of PyPI's libucx-cu12"
		}
		if f == nil {
			for _, x := range ucx("ucx-py", "ucp", python, script("ucx.py")) {
				x.Title += origin
				peers = append(peers, x)
			}
		}
	}
	return peers
}

// buildUCXPy is a step that builds UCX-Py with the UCX of PyPI's wheel.
func (p *preparation) buildUCXPy(dir string) *failure {
	found, _ := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages", "libucx"))
	if len(found) == 0 {
		return &failure{"ls " + dir + "/lib/python*/site-packages/libucx", "the wheel of libucx-cu12 has no such folder"}
	}
	env := []string{"CFLAGS=-I" + filepath.Join(found[0], "include"), "LDFLAGS=-L" + filepath.Join(found[0], "lib")}
	return p.command(env, filepath.Join(dir, "bin", "pip"), "install", "--disable-pip-version-check", p.o.UCXPySource)
}

// ucx returns the peers of one of the two libraries. Which transports and which way to
// connect are fastest depends on its version, so they are tried.
func ucx(way, module, python, script string) (peers []*Peer) {
	for _, mode := range []string{"blocking", "polling"} {
		x := direct(way+"-"+mode, module+".Endpoint.send, recv in coroutines; "+mode+" progress mode", "", python, script, module, mode)
		for _, connect := range []string{"address", "listener"} {
			for _, tls := range []string{"", "sm,tcp,self"} {
				c := candidate{Text: "UCX_TLS not set, connected by " + connect, args: []string{connect}}
				if tls != "" {
					c.Text, c.env = "UCX_TLS="+tls+", connected by "+connect, []string{"UCX_TLS=" + tls}
				}
				x.candidates = append(x.candidates, c)
			}
		}
		peers = append(peers, x)
	}
	return peers
}
