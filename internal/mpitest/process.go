package mpitest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// processes is a command that starts ranks, and what they have told about
// themselves. Each rank opens two connections to a socket: on the first it says
// who it is and, at last, its exit code, and sees by its end that nobody is
// interested any more; the second takes its standard output and error.
type processes struct {
	argv    []string
	env     []string
	ranks   int // that will connect
	timeout time.Duration
	line    func(rank int, line string) // each line of output; rank -1 for the launcher itself

	listener net.Listener
	reading  sync.WaitGroup
	mu       sync.Mutex // of what follows, and line is called with it
	peers    map[int]*peer
	over     bool

	code     int // of the command; -1 if a signal ended it
	timedOut bool
	began    time.Time
	took     time.Duration
	left     int // ranks that the command has not ended

	launcher  int // the process id of the command
	interrupt sync.Once
}

// peer is a rank that has connected.
type peer struct {
	pid     int
	library string
	host    string
	hung    bool // in MPI_Finalize, after its tests
	code    int  // -1 until it has told
	conn    net.Conn
	gone    bool
}

const (
	envControl = "MPI4GO_TEST_CONTROL" // the socket
	grace      = 5 * time.Second       // for goroutine dumps, and for output to arrive
)

// lock makes jobs of other packages' tests, which go test runs at the same time,
// wait: all of them would share the cores. It returns what lets them go on.
func lock() (unlock func(), err error) {
	if os.Getenv(envControl) != "" { // what started us has it
		return func() {}, nil
	}
	name := fmt.Sprintf("mpitest-%d.lock", os.Getuid())
	file, err := os.OpenFile(filepath.Join(os.TempDir(), name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

// run starts the command and returns when it is over and all output is there.
func (p *processes) run(ctx context.Context) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	p.began = time.Now()
	dir, err := os.MkdirTemp("", "mpitest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "control")
	if p.listener, err = net.Listen("unix", socket); err != nil {
		return err
	}
	p.peers = map[int]*peer{}
	p.reading.Add(1)
	go p.accept()
	defer p.listener.Close()

	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = append(append(os.Environ(), p.env...), envControl+"="+socket,
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0") // or each process sleeps for a second at its end
	// A process group of its own, that does not survive us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out := &lineWriter{line: func(line string) { p.show(-1, line) }}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, grace
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	p.mu.Lock() // its first line may need the process id
	err = cmd.Start()
	if err == nil {
		p.launcher = cmd.Process.Pid
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		p.timedOut = errors.Is(ctx.Err(), context.DeadlineExceeded)
		p.kill(cmd.Process.Pid)
		err = <-ended
	}
	p.code, p.took = cmd.ProcessState.ExitCode(), time.Since(p.began)
	for end := time.Now().Add(2 * time.Second); p.signal(0) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	p.left = p.signal(0)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	p.end()
	out.flush()
	return ctx.Err()
}

// end lets the ranks go and waits for the rest of their output.
func (p *processes) end() {
	p.mu.Lock()
	p.over = true
	for _, peer := range p.peers {
		peer.conn.Close()
	}
	p.mu.Unlock()
	p.listener.Close()
	read := make(chan struct{})
	go func() { p.reading.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(grace):
		p.show(-1, "a rank keeps its output open")
	}
}

// kill makes the ranks dump their goroutines, then ends everything.
func (p *processes) kill(launcher int) {
	between := p.launchers(launcher)
	// The launcher would kill the other ranks as soon as the first has ended.
	for _, pid := range between {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	p.signal(syscall.SIGQUIT)
	for end := time.Now().Add(grace); time.Now().Before(end) && p.signal(0) > 0; {
		time.Sleep(20 * time.Millisecond)
	}
	p.signal(syscall.SIGKILL)
	for _, pid := range between {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(-launcher, syscall.SIGKILL)
}

// signal sends a signal to the ranks that are still there, and tells how many
// these are.
func (p *processes) signal(signal syscall.Signal) (alive int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, peer := range p.peers {
		if !peer.gone {
			alive++
			_ = syscall.Kill(peer.pid, signal)
		}
	}
	return alive
}

// launchers are the processes between us and the ranks: the launcher, and its
// descendants above a rank.
func (p *processes) launchers(launcher int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := []int{launcher}
	for _, peer := range p.peers {
		var above []int
		pid := parent(peer.pid)
		for ; pid > 1 && pid != launcher; pid = parent(pid) {
			above = append(above, pid)
		}
		if pid == launcher { // otherwise the launcher is gone, and these are not its own
			found = append(found, above...)
		}
	}
	return found
}

// parent is the parent of a process, 0 if that is gone.
func parent(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may contain anything
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// hosts is the number of hosts that the ranks have told about.
func (p *processes) hosts() int {
	names := map[string]bool{}
	for _, peer := range p.peers {
		names[peer.host] = true
	}
	return len(names)
}

// hung is the number of ranks that could not leave MPI_Finalize.
func (p *processes) hung() (n int) {
	for _, peer := range p.peers {
		if peer.hung {
			n++
		}
	}
	return n
}

func (p *processes) show(rank int, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(rank, line)
}

func (p *processes) accept() {
	defer p.reading.Done()
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.reading.Add(1)
		go func() {
			defer p.reading.Done()
			p.serve(conn)
		}()
	}
}

// serve reads one connection: "hello RANK PID" or "output RANK", then the rest.
func (p *processes) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	first, err := r.ReadString('\n')
	words := strings.Fields(first)
	if err != nil || len(words) < 2 {
		return
	}
	rank, _ := strconv.Atoi(words[1])
	if words[0] == "output" {
		out := &lineWriter{line: func(line string) { p.show(rank, line) }}
		_, _ = io.Copy(out, r)
		out.flush()
		return
	}
	pid, _ := strconv.Atoi(words[2])
	me := &peer{pid: pid, code: -1, conn: conn}
	p.mu.Lock()
	p.peers[rank] = me
	p.mu.Unlock()
	for {
		line, err := r.ReadString('\n')
		p.mu.Lock()
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case err != nil:
			me.gone = true
		case word == "library":
			me.library = rest
		case word == "host":
			me.host = rest
		case word == "hung":
			me.hung = true
		case word == "exit":
			me.code, _ = strconv.Atoi(rest)
		}
		p.release()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// release lets the ranks go when all of them have told their exit code: a
// launcher kills the others when one exits with another code than 0.
func (p *processes) release() {
	if len(p.peers) < p.ranks {
		return
	}
	for _, peer := range p.peers {
		if peer.code < 0 && !peer.gone {
			return
		}
	}
	for _, peer := range p.peers {
		peer.conn.Close()
	}
}

// lineWriter calls line for each line that is written.
type lineWriter struct {
	line func(string)
	part []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.part = append(w.part, b...)
	for {
		before, after, found := strings.Cut(string(w.part), "\n")
		if !found {
			return len(b), nil
		}
		w.line(before)
		w.part = []byte(after)
	}
}

func (w *lineWriter) flush() {
	if len(w.part) > 0 {
		w.line(string(w.part))
		w.part = nil
	}
}

// control is a rank's side of the connections; nil if nobody listens.
type control struct {
	conn net.Conn
	told chan struct{} // closed when the exit code has been sent
	end  chan struct{} // closed when the other side has gone
}

// connect tells the parent who this process is and sends it the output.
func connect(rank int) (*control, error) {
	socket := os.Getenv(envControl)
	if socket == "" {
		return nil, nil
	}
	output, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(output, "output %d\n", rank)
	file, err := output.(*net.UnixConn).File()
	if err != nil {
		return nil, err
	}
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(file.Fd()), fd, 0); err != nil {
			return nil, err
		}
	}
	file.Close()
	output.Close()
	c := &control{told: make(chan struct{}), end: make(chan struct{})}
	if c.conn, err = net.Dial("unix", socket); err != nil {
		return nil, err
	}
	c.tell("hello %d %d", rank, os.Getpid())
	go c.watch()
	return c, nil
}

func (c *control) tell(format string, a ...any) {
	if c != nil {
		fmt.Fprintf(c.conn, format+"\n", a...)
	}
}

// watch ends the process when nobody listens any more.
func (c *control) watch() {
	_, _ = c.conn.Read(make([]byte, 1))
	close(c.end)
	select {
	case <-c.told:
	default:
		os.Exit(3)
	}
}

// exit tells the exit code, waits for the other ranks to do so, and exits.
func (c *control) exit(code int) {
	if c != nil {
		close(c.told)
		c.tell("exit %d", code)
		select {
		case <-c.end:
		case <-time.After(time.Minute):
		}
	}
	os.Exit(code)
}
