// SIGTERM and SIGINT as a request to stop. Signals are sent to this process; those that would end it, to a child.
#include <gpuactors/base/stop_signals.hpp>

#include <support/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

using namespace gpuactors;
using namespace std::chrono_literals;

namespace {

/// Runs `work` in a child process. @returns the signal that ended it; 0 if it returned.
template <class F>
int signal_that_ends(F work) {
  const auto child = ::fork();
  if (child == 0) {
    // Catch2 has handlers that would report the end of this process as a failure.
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

} // namespace

TEST_CASE("the first signal is a request to stop, which everybody sees who looks or waits", "[base]") {
  for (const auto number : {SIGTERM, SIGINT}) {
    const StopSignals signals;
    CHECK_FALSE(signals.came());
    CHECK_FALSE(signals.wait_for(Duration::zero()));
    bool told = false;
    {
      const std::stop_callback tell{signals.token(), [&] { told = true; }};
      ::kill(::getpid(), number);
      signals.wait();
    }
    CHECK(told);
    CHECK(signals.came());
    CHECK(signals.wait_for(Duration::zero()));
  }
}

TEST_CASE("the second signal ends the process, whichever it is", "[base]") {
  CHECK(signal_that_ends([] {
          const StopSignals signals;
          ::raise(SIGTERM);
          signals.wait();
          ::raise(SIGINT);
        })
        == SIGINT);
}

TEST_CASE("signals do what they did before when nobody asks for them any more", "[base]") {
  CHECK(signal_that_ends([] {
          { const StopSignals signals; }
          ::raise(SIGTERM);
        })
        == SIGTERM);
  CHECK(signal_that_ends([] {
          std::signal(SIGINT, SIG_IGN); // as in a background job of a shell
          const StopSignals signals;
          ::raise(SIGINT);
        })
        == 0);
}

TEST_CASE("a signal to a child that was forked is not the parent's", "[base]") {
  const StopSignals signals;
  const auto child = ::fork();
  if (child == 0) {
    ::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK_FALSE(signals.came());
}

TEST_CASE("a child that was forked asks for its own signals, and takes none from its parent", "[base]") {
  auto signals = std::make_unique<StopSignals>();
  const auto child = ::fork();
  if (child == 0) {
    signals.reset(); // as at the end of a scope, or of the process
    const StopSignals own;
    ::raise(SIGTERM);
    own.wait();
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  CHECK_FALSE(signals->came());
  ::raise(SIGTERM);
  signals->wait();
  CHECK(signals->came());
}
