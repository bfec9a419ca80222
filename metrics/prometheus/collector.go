// Package prometheus shows what the connections of package transport do, and what
// becomes of device memory in messages, as metrics of Prometheus. It is a module of its
// own, so that who does not want them does not have their dependencies.
//
//	registry := client.NewRegistry()
//	rank := client.Labels{"rank": strconv.Itoa(mpicomm.World().Rank())}
//	client.WrapRegistererWith(rank, registry).MustRegister(prometheus.NewCollector())
//
// where client is github.com/prometheus/client_golang/prometheus. Nothing is counted
// for it: the counts are those of [transport.Count] and [mpicomm.CountDeviceTraffic],
// which are read when the metrics are asked for.
package prometheus

import (
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	client "github.com/prometheus/client_golang/prometheus"
)

// metric is a number, or one for each value of a label.
type metric struct {
	desc   *client.Desc
	kind   client.ValueType
	values []value
}

type value struct {
	label string // none if the metric has no label
	of    func(*counts) float64
}

// counts is what the metrics are read from.
type counts struct {
	transport.Counts
	device mpicomm.DeviceTraffic
}

func describe(name, help string, labels ...string) *client.Desc {
	return client.NewDesc("mpi4go_"+name, help, labels, nil)
}

// metrics lists them all; docs/transport.md does so, too.
var metrics = []metric{
	{describe("open_connections", "Connections that both sides have not ended yet."), client.GaugeValue, []value{
		{"", func(c *counts) float64 { return float64(c.Open) }},
	}},
	{describe("listeners", "Listeners that are open."), client.GaugeValue, []value{
		{"", func(c *counts) float64 { return float64(c.Listeners) }},
	}},
	{describe("connections_total", "Connections that were made.", "by"), client.CounterValue, []value{
		{"dial", func(c *counts) float64 { return float64(c.Dialed) }},
		{"accept", func(c *counts) float64 { return float64(c.Accepted) }},
	}},
	{describe("refused_dials_total", "Dials to this process that were refused."), client.CounterValue, []value{
		{"", func(c *counts) float64 { return float64(c.Refused) }},
	}},
	{describe("lost_connections_total", "Connections that failed because nothing comes from the peer any more."), client.CounterValue, []value{
		{"", func(c *counts) float64 { return float64(c.Lost) }},
	}},
	{describe("pings_total", "How often a silent peer was asked whether it lives."), client.CounterValue, []value{
		{"", func(c *counts) float64 { return float64(c.Pings) }},
	}},
	{describe("messages_total", "Messages of connections.", "direction"), client.CounterValue, []value{
		{"sent", func(c *counts) float64 { return float64(c.MessagesSent) }},
		{"received", func(c *counts) float64 { return float64(c.MessagesReceived) }},
	}},
	{describe("bytes_total", "Bytes of the frames of these messages.", "direction"), client.CounterValue, []value{
		{"sent", func(c *counts) float64 { return float64(c.BytesSent) }},
		{"received", func(c *counts) float64 { return float64(c.BytesReceived) }},
	}},
	{describe("staged_bytes_total", "Bytes of those sent that were copied into headers."), client.CounterValue, []value{
		{"", func(c *counts) float64 { return float64(c.BytesStaged) }},
	}},
	{describe("sent_frames_total", "Frames sent, by the plan by which they travelled.", "plan"), client.CounterValue, []value{
		{"inline", func(c *counts) float64 { return float64(c.FramesInline) }},
		{"datatype", func(c *counts) float64 { return float64(c.FramesDatatype) }},
		{"request", func(c *counts) float64 { return float64(c.FramesRequest) }},
		{"chunks", func(c *counts) float64 { return float64(c.FramesChunks) }},
	}},
	{describe("credit_stalls_total", "Messages that had to wait because the peer was too far behind."), client.CounterValue, []value{
		{"", func(c *counts) float64 { return float64(c.CreditStalls) }},
	}},
	{describe("unacknowledged_messages", "Messages sent that their peers have not begun to receive."), client.GaugeValue, []value{
		{"", func(c *counts) float64 { return float64(c.Unacknowledged) }},
	}},
	{describe("waiting_messages", "Messages that have come and wait for a receive."), client.GaugeValue, []value{
		{"", func(c *counts) float64 { return float64(c.Waiting) }},
	}},
	{describe("device_operations_total", "Operations to which MPI was given device memory."), client.CounterValue, []value{
		{"", func(c *counts) float64 { return float64(c.device.Direct) }},
	}},
	{describe("device_staged_bytes_total", "Bytes copied from devices to be sent (out), and to devices after they were received (in).", "direction"), client.CounterValue, []value{
		{"out", func(c *counts) float64 { return float64(c.device.StagedOut) }},
		{"in", func(c *counts) float64 { return float64(c.device.StagedIn) }},
	}},
}

// collector reads the counts of this process.
type collector struct{}

// NewCollector returns a collector of the metrics of this process. One is enough;
// before mpicomm.Init, and while there are no connections, all of them are zero.
func NewCollector() client.Collector { return collector{} }

// Describe sends what there is.
func (collector) Describe(to chan<- *client.Desc) {
	for _, m := range metrics {
		to <- m.desc
	}
}

// Collect sends the numbers.
func (collector) Collect(to chan<- client.Metric) {
	c := &counts{transport.Count(), mpicomm.CountDeviceTraffic()}
	for _, m := range metrics {
		for _, v := range m.values {
			var labels []string
			if v.label != "" {
				labels = []string{v.label}
			}
			to <- client.MustNewConstMetric(m.desc, m.kind, v.of(c), labels...)
		}
	}
}
