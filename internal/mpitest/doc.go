// Package mpitest runs the tests of this module under mpirun. Only tests import
// it.
//
// A package whose tests need ranks has
//
//	func TestMain(m *testing.M) { mpitest.Main(m) }
//
// When no launcher started the test binary, Main runs it again under each MPI
// that is installed and on several numbers of ranks, with the same flags; then
// it runs the tests once more by itself, for those that need no ranks. The other
// way is to start the ranks by hand:
//
//	go test -count=1 -exec "mpirun -n 2" ./mpicomm
//
// A test that needs ranks begins with [Comm], [Pair] or [NeedRanks]; every rank
// runs the same tests in the same order, so no test may call t.Parallel. A test
// that starts jobs of its own, or needs no MPI at all, begins with [Alone].
//
// These environment variables choose what happens:
//
//	MPI4GO_TEST_MPIS     the configurations, such as openmpi,mpich; none for none;
//	                     the default is all: openmpi, mpich, openmpi-ucx, openmpi-funneled, and
//	                     openmpi-drop and mpich-flood, where no doorbell rings, or all do, all the time;
//	                     openmpi, mpich or mpiabi with = and the path of an mpirun runs over
//	                     the MPI that this one belongs to: mpiabi=/opt/mpich/bin/mpirun.
//	                     Only where they are named: openmpi-cuda, openmpi-cuda-noipc and
//	                     openmpi-cuda-tcp, over the Open MPI that scripts/cuda-openmpi has built,
//	                     or over another that is given as openmpi-cuda=/path/of/mpirun
//	MPI4GO_TEST_RANKS    a number of ranks, for all configurations
//	MPI4GO_TEST_HOSTS    the number of hosts that the ranks must be on, as scripts/hosts/test.sh sets it;
//	                     only tests that need ranks run then
//	MPI4GO_TEST_TIMEOUT  how long one launch may take, by default 4m
//	MPI4GO_TEST_DEADLINE how long one test may wait, by default 1m
//	MPI4GO_TEST_REQUIRE  configurations that must be there, such as openmpi,mpich
//	MPI4GO_TEST_REQUIRE_HEADERS  families whose mpicc must be there, such as openmpi,mpich,mpiabi
//	MPI4GO_TEST_LARGE    1: also messages over 2 GiB, which need 10 GiB of memory
//
// In the configurations openmpi-cuda all processes have the simulated CUDA driver of
// internal/cudasim; MPI4GO_TEST_CUDA=real leaves them the machine's own, and MPI4GO_CUDA
// names another.
package mpitest
