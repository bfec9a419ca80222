package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

type checkCmd struct {
	Old     string  `arg:"" type:"existingfile" help:"The report.json to compare with."`
	New     string  `arg:"" type:"existingfile" help:"The report.json that may be slower."`
	All     bool    `help:"Peers too, not only ours: when they changed as well, it was the machine."`
	Percent float64 `default:"5" help:"Changes of the median up to so many percent are noise (${default})."`
}

// Run prints what got slower, and then what got faster. It is no failure.
func (c *checkCmd) Run() error {
	older, err := readReport(c.Old)
	if err != nil {
		return err
	}
	newer, err := readReport(c.New)
	if err != nil {
		return err
	}
	return printChanges(os.Stdout, older, newer, c.Percent, c.All)
}

// change is a measurement in both reports.
type change struct {
	result *Result
	times  float64 // new / old; above 1 is worse
	old    []float64
	sure   bool // the repetitions of the two do not overlap
}

// changesOf compares what both reports have. A change counts when the medians differ by
// more than the noise; it is sure when, besides, the repetitions of the two do not overlap.
func changesOf(older, newer *Report, percent float64, all bool) (changes []change, compared int, missing []string) {
	for _, was := range older.Results {
		x := older.peer(was.Peer)
		if x == nil || !x.Ours && !all {
			continue
		}
		is := newer.find(was.Peer, was.Item)
		if is == nil {
			missing = append(missing, was.Peer+": "+was.title())
			continue
		}
		before, now := was.main(), is.main()
		if median(before) <= 0 {
			continue
		}
		compared++
		times := median(now) / median(before)
		if times <= 1+percent/100 && times >= 1/(1+percent/100) {
			continue
		}
		a, b := spreadOf(before), spreadOf(now)
		changes = append(changes, change{is, times, before, b.low > a.high || b.high < a.low})
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		switch {
		case a.times > b.times:
			return -1
		case a.times < b.times:
			return 1
		}
		return 0
	})
	return changes, compared, missing
}

func printChanges(out io.Writer, older, newer *Report, percent float64, all bool) error {
	if older.Machine != newer.Machine {
		fmt.Fprintf(out, "the machines differ: %+v and %+v\n", older.Machine, newer.Machine)
	}
	changes, compared, missing := changesOf(older, newer, percent, all)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	counts := map[string]int{}
	for _, c := range changes {
		word := "slower"
		switch {
		case !c.sure && c.times > 1:
			word = "slower?"
		case c.times < 1 && c.sure:
			word = "faster"
		case c.times < 1:
			word = "faster?"
		}
		counts[word]++
		was := *c.result
		was.Us, was.CPU, was.Receiver = c.old, c.old, c.old
		fmt.Fprintf(table, "%s\t%.2f x\t%s\t%s\t%s -> %s\n", word, c.times, c.result.Peer, c.result.title(), value(&was), value(c.result))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, m := range missing {
		fmt.Fprintln(out, "not in the new report:", m)
	}
	_, err := fmt.Fprintf(out, "%d compared: %d slower, %d faster; %d more slower and %d faster with repetitions that overlap (?)\n",
		compared, counts["slower"], counts["faster"], counts["slower?"], counts["faster?"])
	return err
}
