package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// barVariable tells the ranks that the standard error of the process that
// started them is a terminal: their own is a pipe to mpirun.
const barVariable = "MPI4GO_PINGPONG_BAR"

// bar shows how far a run is. A nil bar shows nothing.
type bar struct{ *progressbar.ProgressBar }

// newBar returns nil if nobody looks.
func newBar(ticks int) *bar {
	if ticks == 0 || os.Getenv(barVariable) == "" && !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return &bar{progressbar.NewOptions(ticks,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetWidth(40),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish())}
}

func (b *bar) add() {
	if b != nil {
		_ = b.Add(1) // a bar that cannot be drawn is no failure of the run
	}
}

func (b *bar) finish() {
	if b != nil {
		_ = b.Finish()
	}
}
