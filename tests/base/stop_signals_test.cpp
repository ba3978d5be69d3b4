// SIGTERM and SIGINT as a request to stop. Signals are sent to this process; those that would end it, to a child.
#include <gpuactors/base/stop_signals.hpp>

#include <support/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>

using namespace gpuactors;
using namespace std::chrono_literals;

namespace {

/// Runs `work` in a child process. @returns its status.
template <class F>
int status_of_child(F work) {
  const auto child = ::fork();
  if (child == 0) {
    constexpr unsigned patience = 30;
    ::alarm(patience);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Runs `work` in a child process that nothing has handlers in. @returns the signal that ended it; 0 if it returned.
template <class F>
int signal_that_ends(F work) {
  const auto status = status_of_child([&] {
    // Catch2 would report the end of this process as a failure.
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
    work();
  });
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/// Ends this process by a signal, which may come a moment later.
void die_by(int number) {
  ::raise(number);
  for (;;)
    ::pause();
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
          die_by(SIGINT);
        })
        == SIGINT);
}

TEST_CASE("signals do what they did before when nobody asks for them any more", "[base]") {
  CHECK(signal_that_ends([] {
          { const StopSignals signals; }
          die_by(SIGTERM);
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
  CHECK(WIFSIGNALED(status_of_child([] { die_by(SIGTERM); })));
  CHECK_FALSE(signals.came());
}

#ifndef __SANITIZE_THREAD__ // it knows no threads of forked children
TEST_CASE("a child that was forked asks for its own signals, and takes none from its parent", "[base]") {
  auto signals = std::make_unique<StopSignals>();
  const auto status = status_of_child([&] {
    signals.reset(); // as at the end of a scope, or of the process
    const StopSignals own;
    ::raise(SIGTERM);
    own.wait();
    ::_exit(7);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  CHECK_FALSE(signals->came());
  ::raise(SIGTERM);
  signals->wait();
  CHECK(signals->came());
}
#endif

TEST_CASE("signals that were made on another thread leave the mask of the thread that ends them", "[base]") {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  std::unique_ptr<StopSignals> signals;
  std::thread{[&] {
    ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    signals = std::make_unique<StopSignals>();
  }}.join();
  signals.reset();
  sigset_t mine;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  CHECK(sigismember(&mine, SIGTERM) == 0);
}
