package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFindMpirun(t *testing.T) {
	const openmpi, mpich = "mpirun (Open MPI) 4.1.4\n", "HYDRA build details:\n    Version: 4.0.2\n"
	for _, test := range []struct {
		name      string
		installed map[string]string
		family    string
		command   string
	}{
		{"both", map[string]string{"mpirun.openmpi": "x (OpenRTE) 4.1.4", "mpirun.mpich": mpich}, "", "mpirun.openmpi"},
		{"the other", map[string]string{"mpirun.openmpi": openmpi, "mpirun.mpich": mpich}, "mpich", "mpirun.mpich"},
		{"plain name", map[string]string{"mpirun": openmpi}, "", "mpirun"},
		{"plain name of MPICH", map[string]string{"mpirun": mpich}, "", "mpirun"},
		{"of another MPI", map[string]string{"mpirun": mpich}, "openmpi", ""},
		{"none", nil, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, command, err := findMpirun(test.family, func(c string) string { return test.installed[c] })
			if test.command == "" {
				require.ErrorContains(t, err, "apt-get install")
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.command, command)
		})
	}
	_, _, err := findMpirun("lam", func(string) string { return "" })
	require.ErrorContains(t, err, "MPI4GO_MPI=lam")
	m, command, err := recognise("/opt/bin/mpirun", func(string) string { return mpich })
	require.NoError(t, err)
	require.Equal(t, []string{"mpich", "/opt/bin/mpirun"}, []string{m.mpi, command})
	_, _, err = recognise("/bin/true", func(string) string { return "" })
	require.ErrorContains(t, err, "--mpirun /bin/true is neither")
}

func TestCommand(t *testing.T) {
	openmpi, mpich := mpiruns[0], mpiruns[1]
	env, argv := openmpi.command("mpirun", launchFlags{N: 2}, machine{cores: 2}, "/x/pingpong", "rate")
	require.Empty(t, env)
	require.Equal(t, []string{"mpirun", "-x", "MPI4GO_MPI=openmpi", "-n", "2", "/x/pingpong", "rate"}, argv)

	env, argv = openmpi.command("mpirun", launchFlags{N: 8, LauncherArgs: "--bind-to  none"}, machine{root: true, cores: 2, library: "/opt/libmpi.so"}, "pingpong")
	require.Equal(t, []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}, env)
	require.Equal(t, []string{"mpirun", "--oversubscribe", "-x", "MPI4GO_MPI=/opt/libmpi.so", "-n", "8", "--bind-to", "none", "pingpong"}, argv)

	_, argv = openmpi.command("mpirun", launchFlags{N: 8, LauncherArgs: "--host a:8"}, machine{cores: 2}, "pingpong")
	require.NotContains(t, argv, "--oversubscribe")

	env, argv = mpich.command("mpirun", launchFlags{N: 8}, machine{root: true, cores: 2}, "pingpong")
	require.Empty(t, env)
	require.Equal(t, []string{"mpirun", "-genv", "MPI4GO_MPI", "mpich", "-n", "8", "pingpong"}, argv)

	here := machine{cores: 2, plans: "inline:1K,request"}
	_, argv = openmpi.command("mpirun", launchFlags{N: 2}, here, "pingpong")
	require.Equal(t, []string{"mpirun", "-x", "MPI4GO_MPI=openmpi", "-x", "MPI4GO_PLANS=inline:1K,request", "-n", "2", "pingpong"}, argv)
	_, argv = mpich.command("mpirun", launchFlags{N: 2}, here, "pingpong")
	require.Equal(t, []string{"mpirun", "-genv", "MPI4GO_MPI", "mpich", "-genv", "MPI4GO_PLANS", "inline:1K,request", "-n", "2", "pingpong"}, argv)
}

func TestQuote(t *testing.T) {
	require.Equal(t, `a --b=1 'c d' 'it'\''s' ''`, quote([]string{"a", "--b=1", "c d", "it's", ""}))
}

func shell(script string) *exec.Cmd {
	command := exec.Command("sh", "-c", script)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

func TestSuperviseExitCode(t *testing.T) {
	require.Equal(t, 0, supervise(shell("true")))
	require.Equal(t, 7, supervise(shell("exit 7")))
	require.Equal(t, 128+int(syscall.SIGKILL), supervise(shell("kill -KILL $$")))
	require.Equal(t, exitFailure, supervise(exec.Command("/nonexistent/mpirun")))
}

func TestSuperviseSignal(t *testing.T) {
	time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) })
	require.Equal(t, 143, supervise(shell("exec sleep 60")))
}

func TestSuperviseSecondSignal(t *testing.T) {
	command := shell("trap '' INT; sleep 60 & wait; wait") // the shell and its child both ignore it
	for i := range 2 {
		time.AfterFunc(time.Duration(i+1)*300*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) })
	}
	start := time.Now()
	require.Equal(t, 130, supervise(command))
	require.Less(t, time.Since(start), grace)
	require.Eventually(t, func() bool { return len(descendants(command.Process.Pid).alive()) == 0 }, 5*time.Second, 10*time.Millisecond)
}

func TestDescendants(t *testing.T) {
	command := shell("sleep 60 & wait")
	require.NoError(t, command.Start())
	defer func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait()
	}()
	require.Eventually(t, func() bool { return len(descendants(command.Process.Pid).alive()) == 2 }, 5*time.Second, 10*time.Millisecond)
	require.Contains(t, descendants(os.Getpid()), command.Process.Pid)
}
