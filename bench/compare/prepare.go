package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Gap is what could not be measured, and why.
type Gap struct {
	What    string `json:"what"`
	Command string `json:"command"`
	Error   string `json:"error"`
}

func (g Gap) String() string { return fmt.Sprintf("%s\n  %s\n%s", g.What, g.Command, g.Error) }

// preparation builds the programs and makes the environments of the peers.
type preparation struct {
	ctx   context.Context
	o     *runCmd
	mpis  []*mpi
	peers []*Peer
	gaps  []Gap
	bin   string
}

func newPreparation(ctx context.Context, o *runCmd) *preparation {
	return &preparation{ctx: ctx, o: o, bin: filepath.Join(o.Cache, "bin")}
}

// gap notes what is missing.
func (p *preparation) gap(what string, f *failure) {
	say("%s: a gap, see the report", what)
	p.gaps = append(p.gaps, Gap{what, f.command, f.output})
}

func say(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "compare: "+format+"\n", values...)
}

// failure is a command that has failed, with the end of what it said.
type failure struct{ command, output string }

func (f *failure) Error() string { return f.command + "\n" + f.output }

// command runs a command to its end.
func (p *preparation) command(env []string, words ...string) *failure {
	c := exec.CommandContext(p.ctx, words[0], words[1:]...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	return &failure{commandLine(env, words), lastLines(out, err)}
}

// commandLine is a command with its variables as the report shows it: for a shell, and
// without the paths of this machine that say nothing to others.
func commandLine(env, words []string) string {
	return withoutPlaces(quote(append(append([]string{}, env...), words...)))
}

// withoutPlaces shortens the home and the project's folder in a text.
func withoutPlaces(text string) string {
	if path := os.Getenv("PATH"); path != "" {
		text = strings.ReplaceAll(text, path, "$PATH")
	}
	if here, err := os.Getwd(); err == nil {
		text = strings.ReplaceAll(text, here+"/", "")
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		text = strings.ReplaceAll(text, home+"/", "~/")
	}
	return text
}

// lastLines is the end of what a command said, which holds the error; pip's are long,
// and their cause is in the middle.
func lastLines(out []byte, err error) string {
	const most = 12
	var kept []string
	for _, line := range strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))), "\n") {
		line = strings.TrimRight(line, " \r")
		if strings.TrimSpace(line) != "" {
			kept = append(kept, line)
		}
	}
	var causes []string
	for _, line := range kept {
		for _, mark := range []string{"Error:", "ERROR:", "error:", "is not reachable", "Could not"} {
			if strings.Contains(line, mark) {
				causes = append(causes, strings.TrimSpace(line))
				break
			}
		}
	}
	if len(kept) > most {
		kept = kept[len(kept)-most:]
		for _, c := range causes[:min(len(causes), 4)] {
			if !strings.Contains(strings.Join(kept, "\n"), c) {
				kept = append([]string{c}, kept...)
			}
		}
	}
	return withoutPlaces(strings.Join(append(kept, err.Error()), "\n"))
}

// quote writes a command line for a shell.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.ContainsAny(word, " '\"$&|;<>()*?\\") {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// wants tells whether the user wants a peer.
func (p *preparation) wants(name string) bool {
	if len(p.o.Peers) == 0 {
		return true
	}
	for _, wanted := range p.o.Peers {
		if strings.Contains(name, wanted) {
			return true
		}
	}
	return false
}

// prepare fills the list of peers.
func (p *preparation) prepare() {
	p.findMPIs()
	p.add(p.cPeers)
	p.add(p.goPeers)
	p.add(p.pythonPeers)
}

// add keeps those of some peers that are wanted.
func (p *preparation) add(peers func() []*Peer) {
	for _, x := range peers() {
		if p.wants(x.Name) {
			p.peers = append(p.peers, x)
		}
	}
}

// pythonEnvironment makes a virtual environment once and returns its python. The steps
// get its folder; the last proves that it works.
func (p *preparation) pythonEnvironment(name string, steps ...func(dir string) *failure) (string, *failure) {
	dir := filepath.Join(p.o.Cache, name)
	python := filepath.Join(dir, "bin", "python")
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return python, nil
	}
	if p.o.NoFetch {
		return "", &failure{"--no-fetch", dir + " was not made before"}
	}
	say("making the Python environment %s", dir)
	steps = append([]func(string) *failure{func(dir string) *failure {
		return p.command(nil, "python3", "-m", "venv", "--clear", dir)
	}}, steps...)
	for _, step := range steps {
		if f := step(dir); f != nil {
			return "", f
		}
	}
	if err := os.WriteFile(complete, nil, 0o666); err != nil {
		return "", &failure{"touch " + complete, err.Error()}
	}
	return python, nil
}

// pip is a step that installs packages.
func (p *preparation) pip(packages ...string) func(dir string) *failure {
	return func(dir string) *failure {
		return p.command(nil, append([]string{filepath.Join(dir, "bin", "pip"), "install", "--disable-pip-version-check"}, packages...)...)
	}
}

// imports is a step that shows that modules can be imported.
func (p *preparation) imports(modules string) func(dir string) *failure {
	return func(dir string) *failure {
		return p.command(nil, filepath.Join(dir, "bin", "python"), "-c", "import "+modules)
	}
}
