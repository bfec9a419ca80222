package main

import (
	"fmt"
	"slices"
)

// figure is one line of the promises.
type figure struct {
	name    string
	measure func(m *measurement) ([]result, error)
}

// result is one number and what it should be.
type result struct {
	what, value string
	must, aim   string
	met, aimed  bool
	reported    bool // there is no limit
}

func (r result) verdict() string {
	switch {
	case r.reported:
		return "reported"
	case r.aimed:
		return "aim met"
	case r.met:
		return "met"
	}
	return "MISSED"
}

// atMost is a result that should not be above its limits.
func atMost(what string, value, must, aim float64, format string) result {
	return result{
		what: what, value: fmt.Sprintf(format, value), must: "<= " + fmt.Sprintf(format, must), aim: "<= " + fmt.Sprintf(format, aim),
		met: value <= must, aimed: value <= aim,
	}
}

// atLeast is a result that should not be below its limits.
func atLeast(what string, value, must, aim float64, format string) result {
	return result{
		what: what, value: fmt.Sprintf(format, value), must: ">= " + fmt.Sprintf(format, must), aim: ">= " + fmt.Sprintf(format, aim),
		met: value >= must, aimed: value >= aim,
	}
}

func each(rows []row, err error, of func(row) []result) ([]result, error) {
	var results []result
	for _, r := range rows {
		results = append(results, of(r)...)
	}
	return results, err
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

var figures = []figure{
	{"latency, short", func(m *measurement) ([]result, error) {
		rows, err := m.rows("latency", "--sizes", "1,8,64,256", "--rounds", "9")
		return each(rows, err, func(r row) []result {
			over := 1e3 * (r.Us - r.CUs)
			return []result{{
				what:  fmt.Sprintf("%d B: %.3f us, C %.3f us", r.Size, r.Us, r.CUs),
				value: fmt.Sprintf("%.2f x, %+.0f ns", r.Ratio, over),
				must:  "<= 1.25 x or + 120 ns", aim: "<= 1.15 x or + 60 ns",
				met: r.Ratio <= 1.25 || over <= 120, aimed: r.Ratio <= 1.15 || over <= 60,
			}}
		})
	}},
	{"latency, long", func(m *measurement) ([]result, error) {
		rows, err := m.rows("latency", "--sizes", "64K,256K,1M,4M", "--rounds", "9")
		return each(rows, err, func(r row) []result {
			return []result{atMost(fmt.Sprintf("%d B: %.1f us, C %.1f us", r.Size, r.Us, r.CUs), r.Ratio, 1.05, 1, "%.3f x")}
		})
	}},
	{"allocations", func(m *measurement) ([]result, error) {
		rows, err := m.rows("latency", "--sizes", "1,4K,64K", "--rounds", "5", "--no-c")
		return each(rows, err, func(r row) []result {
			// Other goroutines of the process allocate now and then.
			return []result{atMost(fmt.Sprintf("%d B, cancellable context, for each send or receive", r.Size), r.Allocs, 0.004, 0.004, "%.2f")}
		})
	}},
	{"bandwidth, window 64", func(m *measurement) ([]result, error) {
		rows, err := m.rows("bandwidth", "--sizes", "64K,256K,1M,4M")
		return each(rows, err, func(r row) []result {
			return []result{atLeast(fmt.Sprintf("%d B: %.0f MB/s, C %.0f MB/s", r.Size, float64(r.Size)/r.Us, float64(r.Size)/r.CUs), r.Ratio, 0.95, 1, "%.2f x")}
		})
	}},
	{"message rate, window 64", func(m *measurement) ([]result, error) {
		var results []result
		for _, form := range []struct {
			post      string
			must, aim float64
		}{{"set", 0.8, 0.95}, {"single", 0.5, 0.7}} {
			rows, err := m.rows("rate", "--sizes", "1", "--rounds", "9", "--post", form.post)
			if err != nil {
				return nil, err
			}
			for _, r := range rows {
				results = append(results, atLeast(fmt.Sprintf("1 B, posted as %s: %.2f M/s, C %.2f M/s", form.post, 1/r.Us, 1/r.CUs), r.Ratio, form.must, form.aim, "%.2f x"))
			}
		}
		return results, nil
	}},
	{"many goroutines", func(m *measurement) ([]result, error) {
		rows, err := m.rows("coroutines", "-g", "64,1000")
		return each(rows, err, func(r row) []result {
			must, aim := 1.5, 3.0
			if r.Goroutines == 1000 {
				must, aim = 0.5, 1.5
			}
			return []result{atLeast(fmt.Sprintf("%d pairs, 1 B, all messages", r.Goroutines), r.MessagesPerS/1e6, must, aim, "%.2f M/s")}
		})
	}},
	{"waiting goroutines", func(m *measurement) ([]result, error) {
		rows, err := m.rows("waiters")
		return each(rows, err, func(r row) []result {
			if r.Order != "posting" {
				return []result{{what: fmt.Sprintf("%d, order %s", r.Goroutines, r.Order), value: fmt.Sprintf("%.2f us", r.Us), must: "-", aim: "-", reported: true}}
			}
			return []result{
				atMost(fmt.Sprintf("%d, order %s", r.Goroutines, r.Order), r.Us, 4, 1, "%.2f us"),
				atMost("OS threads", float64(r.Threads), float64(r.GOMAXPROCS+12), float64(r.GOMAXPROCS+12), "%.0f"),
				atMost("RSS for each", r.RSS/1024, 6, 6, "%.2f KiB"),
			}
		})
	}},
	{"idle with a receive posted", func(m *measurement) ([]result, error) {
		rows, err := m.rows("idle")
		return each(rows, err, func(r row) []result {
			what, cpu, wake := "within 100 ms after traffic", 5.0, 1000.0
			if r.State == "idle" {
				what, cpu, wake = "after 5 s", 1.5, 10000
			}
			return []result{
				atMost("CPU "+what, r.CPUPercent, cpu, cpu, "%.2f %%"),
				atMost("wake-up p50 "+what, r.WakeupP50Us, wake, wake, "%.0f us"),
			}
		})
	}},
	{"beside a busy goroutine", func(m *measurement) ([]result, error) {
		rows, err := m.rows("busy", "--rounds", "9")
		if err != nil || len(rows) != 2 {
			return nil, err
		}
		free, busy := rows[0], rows[1]
		return []result{
			atMost(fmt.Sprintf("p50 %.2f us over idle %.2f us", busy.P50Us, free.P50Us), busy.P50Us/free.P50Us, 1.2, 1.2, "%.2f x"),
			atMost(fmt.Sprintf("mean %.2f us over C's %.2f us", busy.Us, busy.CUs), busy.Ratio, 1.2, 1.2, "%.2f x"),
		}, nil
	}},
	{"8 ranks, all pairs", func(m *measurement) ([]result, error) {
		two, err := m.rows("-n", "2", "allpairs")
		if err != nil {
			return nil, err
		}
		eight, err := m.rows("-n", "8", "allpairs")
		if err != nil || len(two) == 0 || len(eight) == 0 {
			return nil, err
		}
		return []result{atMost(fmt.Sprintf("%.2f us a message over %.2f us on 2 ranks", eight[0].Us, two[0].Us), eight[0].Us/two[0].Us, 50, 50, "%.1f x")}, nil
	}},
	{"messages of many buffers", func(m *measurement) ([]result, error) {
		// 1,000 frames of 1 MiB and more are left out: as many GB, four times.
		rows, err := m.rows("multi", "--frames", "2,16,64,1000", "--sizes", "64,256,1K,4K,16K,64K,256K,1M,4M", "--largest", "256M")
		return each(rows, err, func(r row) []result {
			over := 1e3 * (r.Us - r.CUs)
			results := []result{{
				what:  fmt.Sprintf("%d x %d B: %.2f us, C's best plan %.2f us", r.Frames, r.Size, r.Us, r.CUs),
				value: fmt.Sprintf("%.2f x, %+.0f ns", r.Ratio, over),
				must:  "<= 1.20 x or + 300 ns + 10 ns/frame", aim: "<= 1.10 x",
				met: r.Ratio <= 1.2 || over <= 300+10*float64(r.Frames), aimed: r.Ratio <= 1.1,
			}}
			if r.Size >= 256<<10 {
				results = append(results, atMost(fmt.Sprintf("%d x %d B over one contiguous send", r.Frames, r.Size), r.OneRatio, 1.15, 1.05, "%.2f x"))
			}
			return results
		})
	}},
	{"many buffers, memory", func(m *measurement) ([]result, error) {
		// In jobs of their own: what a process has got once, it keeps.
		var extra []float64
		for range 5 {
			rows, err := m.rows("multi", "--frames", "16", "--sizes", "64M", "--memory", "--no-c", "--rounds", "1", "--iters", "1")
			if err != nil {
				return nil, err
			}
			extra = append(extra, rows[0].Extra.Ours/1024)
		}
		return []result{atMost("16 x 64 MiB, beyond the payload, both sides, median of 5 jobs", median(extra), 1024, 64, "%.0f KiB")}, nil
	}},
	{"many buffers, one message", func(m *measurement) ([]result, error) {
		rows, err := m.rows("multi", "--frames", "1000", "--sizes", "64", "--singles", "--no-c")
		return each(rows, err, func(r row) []result {
			return []result{atMost(fmt.Sprintf("%d x %d B: %.1f us, over as many single sends %.1f us", r.Frames, r.Size, r.Us, r.SinglesUs), r.SinglesRatio, 1./8, 1./20, "%.3f x")}
		})
	}},
	{"many buffers, allocations", func(m *measurement) ([]result, error) {
		// Lengths of the same plan, by default: the payload grows, then the frames.
		rows, err := m.rows("multi", "--frames", "16,1000", "--sizes", "64K,256K", "--no-c", "--largest", "256M")
		if err != nil || len(rows) != 4 {
			return nil, err
		}
		few, many := rows[0], rows[2]
		return []result{
			atMost(fmt.Sprintf("%d x %d B: %.1f, for each send or receive; more for %d x %d B", few.Frames, few.Size, few.Allocs, few.Frames, rows[1].Size), rows[1].Allocs-few.Allocs, 0.5, 0.5, "%.1f"),
			atMost("bytes of them, for 4 times the payload", rows[1].AllocBytes-few.AllocBytes, 512, 64, "%.0f B"),
			atMost(fmt.Sprintf("%d x %d B: %.1f, so for each frame more", many.Frames, many.Size, many.Allocs), (many.Allocs-few.Allocs)/float64(many.Frames-few.Frames), 1, 0.1, "%.2f"),
			atMost("bytes of them for each frame more", (many.AllocBytes-few.AllocBytes)/float64(many.Frames-few.Frames), 256, 64, "%.0f B"),
		}, nil
	}},
	{"connections", func(m *measurement) ([]result, error) {
		rows, err := m.rows("latency", "--transport", "all", "--sizes", "1,1M", "--rounds", "7")
		if err != nil {
			return nil, err
		}
		us := map[string]float64{}
		for _, r := range rows {
			us[fmt.Sprint(r.Transport, " ", r.Size)] = r.Us
		}
		var results []result
		for _, size := range []struct {
			n           int
			coro, tcp   float64
			aimC, aimTC float64
		}{{1, 1.6, 15, 1.3, 25}, {1 << 20, 1.05, 3, 1.05, 5}} {
			conn, raw, tcp := us[fmt.Sprint("conn ", size.n)], us[fmt.Sprint("coro ", size.n)], us[fmt.Sprint("tcp ", size.n)]
			results = append(results,
				atMost(fmt.Sprintf("%d B: Conn %.2f us over coro %.2f us", size.n, conn, raw), conn/raw, size.coro, size.aimC, "%.2f x"),
				atLeast(fmt.Sprintf("%d B: Go's TCP %.2f us over Conn", size.n, tcp), tcp/conn, size.tcp, size.aimTC, "%.1f x"))
		}
		return results, nil
	}},
	{"connections, many active", func(m *measurement) ([]result, error) {
		var us [2]float64
		for i, n := range []string{"1", "10000"} {
			rows, err := m.rows("latency", "--transport", "conn", "--connections", n, "--sizes", "1", "--rounds", "7")
			if err != nil {
				return nil, err
			}
			for _, r := range rows {
				if r.Transport == "conn" {
					us[i] = r.Us
				}
			}
		}
		return []result{atMost(fmt.Sprintf("1 B: 10,000 in turn %.2f us over one %.2f us", us[1], us[0]), us[1]/us[0], 1.2, 1.05, "%.2f x")}, nil
	}},
	{"connections, idle", func(m *measurement) ([]result, error) {
		many, err := m.rows("connections", "-c", "10000", "--samples", "1", "--after", "100ms")
		if err != nil {
			return nil, err
		}
		some, err := m.rows("connections", "-c", "100")
		if err != nil {
			return nil, err
		}
		r := some[0]
		return []result{
			atMost("memory of each, dialed", many[0].ConnRSS[0], 4096, 1024, "%.0f B"),
			atMost("memory of each, accepted", many[0].ConnRSS[1], 4096, 1024, "%.0f B"),
			atMost("100 after 5 s: CPU", r.CPUPercent, 0.3, 0.1, "%.2f %%"),
			atMost("100 after 5 s: wake-up p50", r.WakeupP50Us, 150, 60, "%.0f us"),
			atMost("100 after 5 s: wake-up p99", r.WakeupP99Us, 1000, 1000, "%.0f us"),
			atMost(fmt.Sprintf("connect %.1f us over one way of a byte %.2f us", r.ConnectP50Us, r.OneWayUs), r.ConnectP50Us/r.OneWayUs, 20, 20, "%.1f x"),
			atMost("connect p99", r.ConnectP99Us, 5000, 5000, "%.0f us"),
		}, nil
	}},
	{"collectives, 4 ranks", func(m *measurement) ([]result, error) {
		var results []result
		for _, c := range []struct {
			call, size string
			must       float64
			plus       float64 // us
		}{{"allreduce", "8", 1.5, 1}, {"allreduce", "1M", 1.1, 0}, {"alltoall", "1K", 1.3, 0}} {
			rows, err := m.rows("-n", "4", "collective", c.call, "--sizes", c.size, "--rounds", "9")
			if err != nil {
				return nil, err
			}
			for _, r := range rows {
				results = append(results, atMost(fmt.Sprintf("%s, %d B: %.1f us, C's blocking call %.1f us", c.call, r.Size, r.Us, r.CUs),
					(r.Us-c.plus)/r.CUs, c.must, c.must, "%.2f x"))
			}
		}
		return results, nil
	}},
	{"MPI4Dask's coroutine", func(m *measurement) ([]result, error) {
		// In turn, because they are jobs of their own and the machine has two speeds.
		var theirs, ours, times []float64
		for range 5 {
			them, err := asyncio(m.mpi)
			if err != nil {
				return nil, err
			}
			rows, err := m.rows("latency", "--sizes", "1", "--rounds", "3", "--no-c")
			if err != nil {
				return nil, err
			}
			theirs, ours, times = append(theirs, them), append(ours, rows[0].Us), append(times, them/rows[0].Us)
		}
		return []result{atLeast(fmt.Sprintf("mpi4py and asyncio %.2f us over ours %.3f us, 1 B, median of 5 turns", median(theirs), median(ours)), median(times), 6, 8, "%.1f x")}, nil
	}},
}
