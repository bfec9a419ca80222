package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// claim is one of the paper's two.
type claim struct {
	text  string
	limit float64
	item  Item
}

// claims are those of arXiv 2101.08878 against UCX-Py: latency, and throughput of
// messages from 2 MiB on.
func (r *Report) claims() []claim {
	claims := []claim{{"latency of 1 B", 6, Item{"latency", 1, 1, 1}}}
	for _, i := range r.items("throughput") {
		if i.Size >= 2*mib {
			claims = append(claims, claim{"throughput, " + formatSize(i.Size), 4, i})
		}
	}
	return claims
}

// against are the ways that ours is compared with, and whether the claim's limit is
// meant for them.
var against = []struct {
	way   string
	limit bool
}{
	{"ucx-py-blocking", true},
	{"ucx-py-polling", true},
	{"ucxx-blocking", true},
	{"ucxx-polling", true},
	{"mpi4dask", false},
	{"dask-tcp", false},
	{"tcp", false},
}

// Verdict is a claim beside what was measured.
type Verdict struct {
	Claim   string  `json:"claim"`
	Against string  `json:"against"`
	Ours    string  `json:"ours"`
	Times   float64 `json:"times"` // how many times better ours is; the median over the repetitions
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	// CTimes is how many times better C over the same MPI is, 0 if it was not measured.
	CTimes    float64 `json:"c_times"`
	OursShare float64 `json:"share_of_c,omitempty"`       // our throughput over C's
	PeerShare float64 `json:"peers_share_of_c,omitempty"` // the peer's
	Word      string  `json:"verdict"`
}

// verdictOf judges a ratio. A limit that C itself does not reach is nobody's to reach
// on this machine.
func verdictOf(times spread, middle, limit, c float64) string {
	switch {
	case limit == 0 && times.low > 1:
		return "ahead"
	case limit == 0 && times.high < 1:
		return "BEHIND"
	case limit == 0:
		return "even"
	case times.low >= limit:
		return "met"
	case middle >= limit:
		return "met, not in every repetition"
	case c > 0 && c < limit:
		return fmt.Sprintf("out of reach here: C has %s x", three(c))
	}
	return "MISSED"
}

// verdicts are the rows of the claims.
func (r *Report) verdicts() (verdicts []Verdict) {
	for _, c := range r.claims() {
		for _, a := range against {
			for _, x := range r.Peers {
				if x.Way != "coro" {
					continue
				}
				for _, y := range r.Peers {
					if y.Way != a.way || y.MPI != "" && y.MPI != x.MPI {
						continue
					}
					ours, theirs, plain := r.find(x.Name, c.item), r.find(y.Name, c.item), r.find(over("c", x.MPI), c.item)
					if ours == nil || theirs == nil {
						continue
					}
					times := ratios(theirs.Us, ours.Us)
					s := spreadOf(times)
					v := Verdict{Claim: c.text, Against: y.Name, Ours: x.Name, Times: median(times), Low: s.low, High: s.high}
					if plain != nil {
						v.CTimes = median(ratios(theirs.Us, plain.Us))
						if c.item.Kind == "throughput" {
							v.OursShare, v.PeerShare = median(ratios(plain.Us, ours.Us)), median(ratios(plain.Us, theirs.Us))
						}
					}
					limit := 0.0
					if a.limit {
						limit = c.limit
						v.Claim += fmt.Sprintf(" >= %g x", limit)
					}
					v.Word = verdictOf(s, v.Times, limit, v.CTimes)
					verdicts = append(verdicts, v)
				}
			}
		}
	}
	return verdicts
}

// missing are the ways of the claims that were not measured.
func (r *Report) missing() (ways []string) {
	for _, a := range against {
		if !slices.ContainsFunc(r.Peers, func(x *Peer) bool { return x.Way == a.way }) {
			ways = append(ways, a.way)
		}
	}
	return ways
}

// Loss is a measurement in which ours is behind.
type Loss struct {
	What   string
	Ours   string // name and value
	Behind string // who is better, by how much
	Factor float64
}

// lossOver is from which ratio to C a row is one that we lose.
const lossOver = 1.3

// losses are the rows in which ours is more than 1.3 x C over the same MPI, or behind
// a peer that is not C, in every repetition.
func (r *Report) losses() (losses []Loss) {
	for _, ours := range r.Results {
		x := r.peer(ours.Peer)
		if x == nil || !x.Ours || ours.Kind == "idle" {
			continue
		}
		loss := Loss{What: ours.title(), Ours: fmt.Sprintf("%s: %s", ours.Peer, value(ours))}
		var behind []string
		for _, theirs := range r.Results {
			y := r.peer(theirs.Peer)
			if theirs.Item != ours.Item || y == nil || y.Ours || y.MPI != "" && y.MPI != x.MPI {
				continue
			}
			times := ratios(ours.main(), theirs.main())
			if len(times) == 0 || math.IsNaN(median(times)) {
				continue
			}
			limit := 1.0
			if y.Way == "c" {
				limit = lossOver
			}
			if spreadOf(times).low > limit && median(times) > limit*1.02 {
				behind = append(behind, fmt.Sprintf("%s %s (%s x)", theirs.Peer, value(theirs), three(median(times))))
				loss.Factor = max(loss.Factor, median(times))
			}
		}
		if len(behind) > 0 {
			loss.Behind = strings.Join(behind, ", ")
			losses = append(losses, loss)
		}
	}
	slices.SortStableFunc(losses, func(a, b Loss) int {
		switch {
		case a.Factor > b.Factor:
			return -1
		case a.Factor < b.Factor:
			return 1
		}
		return 0
	})
	return losses
}

func (r *Report) peer(name string) *Peer {
	at := slices.IndexFunc(r.Peers, func(x *Peer) bool { return x.Name == name })
	if at < 0 {
		return nil
	}
	return r.Peers[at]
}

// value writes the main number of a result with its unit.
func value(r *Result) string {
	m := median(r.main())
	switch r.Kind {
	case "throughput":
		return three(float64(r.Size)/m) + " MB/s"
	case "rate":
		return three(1/m) + " M/s"
	case "wait", "idle":
		return three(m) + " %"
	case "memory":
		return three(m/mib) + " MiB"
	}
	return three(m) + " us"
}
