package main

import (
	"fmt"
	"slices"
	"strings"
)

// page is the report being written.
type page struct {
	strings.Builder
	r *Report
}

func (p *page) line(format string, values ...any) { fmt.Fprintf(p, format+"\n", values...) }

// table writes a table.
func (p *page) table(head []string, rows [][]string) {
	p.line("| %s |", strings.Join(head, " | "))
	p.line("|%s", strings.Repeat("---|", len(head)))
	for _, row := range rows {
		p.line("| %s |", strings.Join(row, " | "))
	}
	p.line("")
}

// markdown writes the report.
func markdown(r *Report, plots []picture) string {
	p := &page{r: r}
	p.line("# Beside the others")
	p.line("")
	p.line("Written by `make compare`, which measures everything below in one session on one machine: peer after peer, then all")
	p.line("of them again, %s. Do not edit: run it again. bench/compare/peers has the peers, a short program each;", counted(r.Reps, "repetition"))
	p.line("the figures are in [comparison/report.json](comparison/report.json), too, and `make bench-check` compares two of those.")
	p.line("")
	if r.Quick {
		p.line("**This is a run with --quick, to see whether everything works. Its figures mean nothing.**")
		p.line("")
	}
	p.machine()
	p.claims()
	p.losing()
	for _, plot := range plots {
		p.line("![%s](comparison/%s)", plot.title, plot.file)
		p.line("")
	}
	p.figures()
	p.peers()
	p.gaps()
	return p.String()
}

func (p *page) machine() {
	m := p.r.Machine
	p.line("## The machine, and how it was measured")
	p.line("")
	p.line("%s, %s, %.0f GiB; %s, %s, %s. Begun %s UTC, %.0f minutes.", m.CPU, counted(m.Cores, "processor"),
		float64(m.Memory)/(1<<30), m.OS, m.Kernel, m.Go, p.r.Date, p.r.Minutes)
	p.line("")
	bound := "Each of the two processes had a processor core of its own, by the launcher's option or taskset."
	if !m.Bound {
		bound = "The processes that no MPI starts were not bound to cores: there are no two, or no taskset."
	}
	for _, note := range []string{
		"Two processes on this machine, started anew for every peer and repetition. " + bound,
		fmt.Sprintf("Each measurement has about %d ms: an eighth for warm-up, half for a loop that is timed as a whole, and as many messages again, each timed by itself for p50 and p99. The number of messages follows from the warm-up.", p.r.Ms),
		"Before and after each, a message with a pattern goes both ways and is compared as a whole on both sides. A difference ends the peer: it becomes a gap.",
		"One-way = round trip / 2. MB = 10^6 bytes. A figure is the median of the repetitions, in brackets the least and the greatest; p99 is the median of those of the repetitions.",
		"throughput: a window of 64 messages in one direction (from 512 KiB on of 16 MiB in all, of 4 messages at least), then an answer of 8 bytes.",
		"rate: so many conversations at the same time, each a ping-pong of 1 byte in a coroutine, goroutine or task of its own; in C receives that are posted for all, and MPI_Waitsome. All messages count.",
		"message of many frames: the receiver learns the lengths with the message, but for the sockets, where both sides know them. Every peer sends them its own way.",
		fmt.Sprintf("CPU: user and system time of the second process over %d ms, right after traffic; wake-up: from before the send until the receiver has the message.", p.r.WaitMs),
		"memory: of one message, above what the process had in RAM before: on the receiver's side what it is received into counts, on the sender's side it was there before.",
	} {
		p.line("* %s", note)
	}
	p.line("")
}

func (p *page) claims() {
	p.line("## The paper's claims")
	p.line("")
	p.line("MPI4Dask (arXiv 2101.08878) reports a latency up to 6 times lower and a throughput up to 4 times higher than UCX-Py's, between the nodes of a GPU cluster.")
	p.line("Here it is host memory on one machine. How many times better ours is, by the median of the repetitions; met when it holds in every repetition.")
	p.line("Where even C over the same MPI is not so many times faster than the peer, the limit is out of reach, and the share of C's throughput says what each reaches.")
	p.line("")
	var rows [][]string
	for _, v := range p.r.Verdicts {
		share, c := "-", "-"
		if v.CTimes > 0 {
			c = three(v.CTimes) + " x"
			if v.OursShare > 0 {
				share = fmt.Sprintf("%.0f %%, %.0f %%", 100*v.OursShare, 100*v.PeerShare)
			}
		}
		rows = append(rows, []string{v.Claim, v.Against, v.Ours, fmt.Sprintf("%s x (%s to %s)", three(v.Times), three(v.Low), three(v.High)), c, share, v.Word})
	}
	p.table([]string{"claim", "against", "ours", "times better", "C is", "share of C: ours, peer's", "verdict"}, rows)
	if missing := p.r.missing(); len(missing) > 0 {
		p.line("Not measured: %s. See the gaps.", strings.Join(missing, ", "))
		p.line("")
	}
}

func (p *page) losing() {
	p.line("## What we lose")
	p.line("")
	p.line("Where ours is more than %g times C over the same MPI, or behind another peer, in every repetition.", lossOver)
	p.line("")
	var rows [][]string
	for _, l := range p.r.losses() {
		rows = append(rows, []string{l.What, l.Ours, l.Behind})
	}
	if len(rows) == 0 {
		p.line("Nothing.")
		p.line("")
		return
	}
	p.table([]string{"measurement", "ours", "better"}, rows)
}

// grid writes a table with a row for each peer and a column for each item.
func (p *page) grid(items []Item, head func(Item) string, cell func(*Result) string) {
	heads := []string{"peer"}
	for _, i := range items {
		heads = append(heads, head(i))
	}
	var rows [][]string
	for _, x := range p.r.Peers {
		row, some := []string{x.Name}, false
		for _, i := range items {
			text := "-"
			if r := p.r.find(x.Name, i); r != nil {
				text, some = cell(r), true
			}
			row = append(row, text)
		}
		if some {
			rows = append(rows, row)
		}
	}
	p.table(heads, rows)
}

func (p *page) figures() {
	size := func(i Item) string { return formatSize(i.Size) }
	us := func(r *Result) string { return withSpread(r.Us) }
	p99 := func(r *Result) string { return three(median(r.P99)) }
	section := func(kind, title string, head func(Item) string, cell func(*Result) string) bool {
		items := p.r.items(kind)
		if len(items) == 0 {
			return false
		}
		p.line("## %s", title)
		p.line("")
		p.grid(items, head, cell)
		return true
	}
	if section("latency", "One-way latency, us", size, us) {
		p.line("p99 of single messages, us:")
		p.line("")
		p.grid(p.r.items("latency"), size, p99)
	}
	if section("throughput", "Throughput, MB/s", size, func(r *Result) string { return withSpread(inverted(r.Us, float64(r.Size))) }) {
		p.line("p99 of the time of a window, for each message, us:")
		p.line("")
		p.grid(p.r.items("throughput"), size, p99)
	}
	section("multi", "Messages of many frames, one-way, us", func(i Item) string { return fmt.Sprintf("%d x %s", i.Frames, formatSize(i.Size)) }, us)
	section("rate", "Messages per second of many conversations, millions", func(i Item) string { return fmt.Sprint(i.N) },
		func(r *Result) string { return withSpread(inverted(r.Us, 1)) })
	waits := append(p.r.items("wait"), p.r.items("idle")...)
	if len(waits) > 0 {
		p.line("## CPU while waiting and while idle, %% of a core")
		p.line("")
		p.grid(waits, func(i Item) string {
			return map[string]string{"wait": "waiting for a message; wake-up, us", "idle": "nothing to wait for"}[i.Kind]
		}, func(r *Result) string {
			if r.Kind == "wait" {
				return withSpread(r.CPU) + "; " + three(median(r.Wakeup))
			}
			return withSpread(r.CPU)
		})
	}
	for _, i := range p.r.items("memory") {
		p.line("## Memory of a message of %d x %s, MiB", i.Frames, formatSize(i.Size))
		p.line("")
		var rows [][]string
		for _, x := range p.r.Peers {
			if r := p.r.find(x.Name, i); r != nil {
				inMiB := func(v []float64) string { return three(median(v) / mib) }
				rows = append(rows, []string{x.Name, inMiB(r.RSS), inMiB(r.Sender), inMiB(r.Receiver)})
			}
		}
		p.table([]string{"peer", "in RAM before", "more, sender", "more, receiver"}, rows)
	}
}

func (p *page) peers() {
	p.line("## The peers")
	p.line("")
	for _, x := range p.r.Peers {
		p.line("**%s**: %s.", x.Name, x.Title)
		tuning := x.Tuning
		if tuning == "" {
			tuning = "none"
		}
		p.line("Tuning: %s", tuning)
		var environment []string
		for key := range x.Environment {
			environment = append(environment, key)
		}
		slices.Sort(environment)
		for n, key := range environment {
			environment[n] = key + ": " + x.Environment[key]
		}
		if len(environment) > 0 {
			p.line("(%s)", strings.Join(environment, "; "))
		}
		p.line("")
		p.line("    %s", x.Command)
		p.line("")
	}
}

func (p *page) gaps() {
	p.line("## Gaps")
	p.line("")
	if len(p.r.Gaps) == 0 {
		p.line("None: all peers were measured.")
		return
	}
	p.line("What could not be measured here, with the command that failed and what it said.")
	for _, g := range p.r.Gaps {
		p.line("")
		p.line("**%s**", g.What)
		p.line("")
		p.line("    $ %s", g.Command)
		for line := range strings.Lines(g.Error) {
			p.line("    %s", strings.TrimRight(line, "\n"))
		}
	}
}
