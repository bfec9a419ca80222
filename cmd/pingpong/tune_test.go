package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mpi4go/mpi4go/internal/wire"
)

func parsePlans(t *testing.T, text string) wire.Plans {
	t.Helper()
	plans, err := wire.ParsePlans(text)
	require.NoError(t, err)
	return plans
}

func TestGain(t *testing.T) {
	ones := []float64{1, 1, 1, 1, 1, 1, 1}
	require.Equal(t, 0.5, gain([]float64{0.5, 0.4, 0.6, 0.5, 0.5, 0.5, 0.5}, ones))
	require.Equal(t, 0.5, gain([]float64{0.5, 0.4, 0.6, 0.5, 0.5, 9, 0.5}, ones), "one round may contradict")
	require.Equal(t, 1.0, gain([]float64{0.5, 9, 0.6, 0.5, 0.5, 9, 0.5}, ones), "two may not")
	require.Equal(t, 1.0, gain([]float64{0.5, 0.5, 0.5, 0.5, 9}, ones), "nor one of five")
	require.Equal(t, 1.0, gain([]float64{0.98, 0.98, 0.98, 0.98, 0.98}, ones), "too little")
	require.Equal(t, 2.0, gain([]float64{2, 2, 2, 2, 2}, ones))
	require.Equal(t, 1.0, gain(nil, nil))
}

func TestFitsHeader(t *testing.T) {
	for _, test := range []struct {
		shape multiShape
		fits  bool
	}{{multiShape{2, 1024}, true}, {multiShape{2, 2048}, false}, {multiShape{16, 64}, true}, {multiShape{16, 256}, false}, {multiShape{64, 64}, false}, {multiShape{1000, 0}, false}} {
		require.Equal(t, test.fits, test.shape.fitsHeader(), test.shape)
	}
}

// model gives each plan a time by the length of the frames.
type model func(plan wire.Plan, shape multiShape) float64

// times are what five rounds without noise would measure.
func (m model) times(frames, sizes []int) planTimes {
	all := planTimes{}
	for _, n := range frames {
		for _, size := range sizes {
			shape := multiShape{n, size}
			all[shape] = map[wire.Plan][]float64{}
			for _, plan := range framePlans {
				if us := m(plan, shape); us > 0 {
					all[shape][plan] = []float64{us, us, us, us, us}
				}
			}
		}
	}
	return all
}

// fastest gives the plan that is best for a length half the time of the others.
func fastest(best string) model {
	plans, err := wire.ParsePlans(best)
	if err != nil {
		panic(err)
	}
	return func(plan wire.Plan, shape multiShape) float64 {
		if plan == plans.For(shape.size) {
			return 1
		}
		return 2
	}
}

func TestThresholds(t *testing.T) {
	const inForce = "inline:512,datatype:512K,request"
	sizes := []int{64, 128, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	for _, test := range []struct {
		name, inForce string
		model         model
		want          string
	}{
		{"the same", inForce, fastest(inForce), inForce},
		{"a limit between two lengths stays", "inline:700,datatype:600K,request", fastest("inline:512,datatype:256K,request"), "inline:700,datatype:600K,request"},
		{"longer inline", inForce, fastest("inline:4K,datatype:512K,request"), "inline:4K,datatype:512K,request"},
		{"shorter inline", inForce, fastest("inline:128,datatype:512K,request"), "inline:128,datatype:512K,request"},
		{"no inline", inForce, fastest("datatype:512K,request"), "inline:0,datatype:512K,request"},
		{"less datatype", inForce, fastest("inline:512,datatype:16K,request"), "inline:512,datatype:16K,request"},
		{"more datatype than was measured", inForce, fastest("inline:512,datatype"), "inline:512,datatype:1M,request"},
		{"no datatype", inForce, fastest("inline:4K,request"), "inline:4K,request"},
		{"always inline, as far as was measured", inForce, fastest("inline"), "inline:1M,request"},
		{"from a forced plan", "request", fastest(inForce), "inline:512,datatype:256K,request"},
		{"from plans in another order", "inline:128,request:8K,datatype:64K,request", fastest("inline:128,request:4K,datatype:64K,request"), "inline:128,request:8K,datatype:64K,request"},
		{"within noise", inForce, func(plan wire.Plan, _ multiShape) float64 { return 1 + 0.01*float64(plan) }, inForce},
		{"inline was not measured for long ones", inForce, func(plan wire.Plan, shape multiShape) float64 {
			if plan == wire.Inline {
				if shape.bytes() > 64<<10 {
					return 0
				}
				return 0.5
			}
			return fastest(inForce)(plan, shape)
		}, "inline:1K,datatype:512K,request"},
		{"one length that falls out does not break the order", inForce, func(plan wire.Plan, shape multiShape) float64 {
			if shape.size == 64<<10 && plan == wire.Request {
				return 0.5
			}
			return fastest(inForce)(plan, shape)
		}, inForce},
		{"numbers of frames that disagree: the larger gain wins", inForce, func(plan wire.Plan, shape multiShape) float64 {
			switch {
			case shape.size != 1<<10 || plan != wire.Inline:
				return fastest(inForce)(plan, shape)
			case shape.frames == 16:
				return 0.1
			}
			return 2
		}, "inline:1K,datatype:512K,request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := test.model.times([]int{2, 16, 64}, sizes).thresholds(parsePlans(t, test.inForce))
			require.Equal(t, test.want, found.String())
			require.Equal(t, found, parsePlans(t, found.String()), "Config.Plans takes it")
		})
	}
	t.Run("in the header", func(t *testing.T) {
		require.Equal(t, inForce, fastest("request").times([]int{2}, []int{64, 1024}).thresholds(parsePlans(t, inForce)).String())
	})
}

// simulated is a machine on which a job takes the times of a model, the second
// time those of another.
type simulated struct {
	t             *testing.T
	first, second model
	inForce       string
	order         []string
}

func (s *simulated) run(text string, args ...string) (got multiReport, err error) {
	if args[0] == "info" {
		require.Empty(s.t, text)
		got.Environment.Settings = map[string]string{"MPI4GO_PLANS": s.inForce}
		return got, nil
	}
	s.order = append(s.order, text)
	_, m, err := parse(s.t, args...)
	require.NoError(s.t, err)
	multi := m.(*multiCmd)
	require.True(s.t, multi.NoC)
	times := s.first
	if strings.Contains(text, ",") {
		times = s.second
	}
	for _, shape := range multi.shapes() {
		us := times(parsePlans(s.t, text).For(shape.size), shape)
		got.Rows = append(got.Rows, multiRow{Frames: shape.frames, Size: shape.size, timedPath: timedPath{timing: timing{Us: us}}})
	}
	return got, nil
}

// tune runs the mode on it and returns the report.
func (s *simulated) tune(format string, args ...string) (string, error) {
	_, m, err := parse(s.t, append([]string{"tune"}, args...)...)
	require.NoError(s.t, err)
	var out bytes.Buffer
	err = m.(*tuneCmd).tune(s.run, func(e environment) *report {
		r := newReport(format, "tune", m, e)
		r.out = bufio.NewWriter(&out)
		return r
	})
	return out.String(), err
}

func TestTune(t *testing.T) {
	s := &simulated{t: t, inForce: "inline:512,datatype:512K,request"}
	s.first = fastest("inline:4K,datatype:512K,request")
	s.second = s.first
	text, err := s.tune("text", "--rounds=5", "--frames=16", "--sizes=64:1M")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Equal(t, "MPI4GO_PLANS=inline:4K,datatype:512K,request", lines[len(lines)-1])
	require.Contains(t, lines[len(lines)-2], "of the 3 messages whose plan changes 3 are faster, 0 slower, 0 within noise: 0.50 x")
	require.Contains(t, text, "# plans in force: inline:512,datatype:512K,request\n")
	require.Equal(t, []string{"16", "4096", "1.00", "2.00", "2.00", "datatype", "inline", "2.00", "1.00", "0.50", "faster"}, strings.Fields(lines[len(lines)-11]))
	require.Equal(t, []string{"16", "524288", "-", "1.00", "2.00", "datatype", "datatype", "1.00", "1.00", "1.00", "same"}, strings.Fields(lines[len(lines)-4]))
	require.NotContains(t, text, "\n16                 64 ", "it fits into the header")
	require.Equal(t, []string{"inline", "datatype", "request", "datatype", "request", "inline"}, s.order[:6], "another plan begins each round")
	require.Len(t, s.order, 5*(3+2))

	text, err = s.tune("json", "--rounds=5")
	require.NoError(t, err)
	var got struct {
		Plans string
		Rows  []tuneRow
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, "inline:4K,datatype:512K,request", got.Plans)
	require.Len(t, got.Rows[0].TunedRoundsUs, 5)
	text, err = s.tune("bench", "--rounds=5")
	require.NoError(t, err)
	require.Contains(t, text, "\nBenchmarkPingPong/mode=tune/frames=16/size=4096 1 1000 ns/op 2000 in-force-ns/op\n")
}

func TestTuneKeeps(t *testing.T) {
	const inForce = "inline:512,datatype:512K,request"
	s := &simulated{t: t, inForce: inForce, first: fastest(inForce), second: fastest(inForce)}
	text, err := s.tune("text")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(text, "# no other plans gain more than noise: those in force are kept\nMPI4GO_PLANS="+inForce+"\n"), text)
	require.Len(t, s.order, 7*3, "there is nothing to measure again")

	s.first = fastest("inline:4K,request") // which does not show again
	text, err = s.tune("text")
	require.NoError(t, err)
	require.Contains(t, text, "# inline:4K,request did not hold when measured again, ")
	require.True(t, strings.HasSuffix(text, "; those in force are kept\nMPI4GO_PLANS="+inForce+"\n"), text)

	_, err = s.tune("text", "--frames=2", "--sizes=64")
	require.ErrorContains(t, err, "measure longer or more frames")

	broken := errors.New("broken")
	_, m, err := parse(t, "tune")
	require.NoError(t, err)
	err = m.(*tuneCmd).tune(func(string, ...string) (multiReport, error) { return multiReport{}, broken }, nil)
	require.ErrorIs(t, err, broken)
}

// TestModes shows that a mode either runs in the ranks or starts them.
func TestModes(t *testing.T) {
	for _, args := range [][]string{{"latency"}, {"multi"}, {"tune"}, {"collective", "barrier"}, {"info"}} {
		_, m, err := parse(t, args...)
		require.NoError(t, err)
		_, inside := m.(inRanks)
		_, starts := m.(starter)
		require.NotEqual(t, inside, starts, args)
		require.Equal(t, args[0] == "tune", starts, args)
	}
}

func TestMultiShapes(t *testing.T) {
	_, m, err := parse(t, "multi", "--frames=2,16", "--sizes=0,1M,8M", "--largest=16M")
	require.NoError(t, err)
	require.Equal(t, []multiShape{{2, 0}, {2, 1 << 20}, {2, 8 << 20}, {16, 0}, {16, 1 << 20}}, m.(*multiCmd).shapes())
}
