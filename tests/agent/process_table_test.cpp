#include "process_fixture.hpp"

#include <gpuactors/base/limits.hpp>

#include <support/temporary_folder.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

using Lines = std::vector<std::string>;

std::string why_not(const Result<Process>& result, Errc code) {
  REQUIRE_FALSE(result.has_value());
  CHECK(to_string(result.error().code()) == to_string(code));
  return result.error().message();
}

/// Whether a process, which need not be a child, has ended or does so before the test loses patience.
bool ends_soon(pid_t pid, int patience_ms = 60'000) {
  pollfd handle{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  if (handle.fd < 0)
    return errno == ESRCH;
  const int ready = ::poll(&handle, 1, patience_ms);
  ::close(handle.fd);
  return ready == 1;
}

int open_descriptors() {
  const auto folder = std::filesystem::directory_iterator{"/proc/self/fd"};
  return static_cast<int>(std::distance(begin(folder), end(folder)));
}

} // namespace

// -- how processes end ----------------------------------------------------------------------------

TEST_CASE_METHOD(TableFixture, "an exit code is told once, with who it was") {
  const auto process = start({"/bin/sh", {"-c", "exit 3"}, {}, {}, "worker-3"});
  const auto seen = witness.wait_end(process.id);
  table.reset();
  CHECK(seen.ends == std::vector{exited(3)});
  CHECK(seen.pid == process.pid);
  CHECK(seen.tag == "worker-3");
  CHECK(to_string(seen.ends[0]) == "ended with exit code 3");
}

TEST_CASE_METHOD(TableFixture, "a process that is killed from outside is told with the signal") {
  const auto process = start_probe({"wait"});
  witness.wait_line(process.id);
  ::kill(process.pid, SIGKILL);
  const auto seen = witness.wait_end(process.id);
  CHECK(seen.ends == std::vector{ended_by(SIGKILL)});
  CHECK(to_string(seen.ends[0]) == "was ended by signal 9 (SIGKILL)");
}

TEST_CASE("ends are put into words") {
  CHECK(to_string(ExitStatus{ExitStatus::Kind::signalled, SIGSEGV, true})
        == "was ended by signal 11 (SIGSEGV) and left a core dump");
  CHECK(to_string(ended_by(SIGRTMIN)) == "was ended by signal " + std::to_string(SIGRTMIN));
  CHECK_THAT(to_string(ExitStatus{}), StartsWith("ended, and how is not known"));
  CHECK(exited(0).succeeded());
  CHECK_FALSE(exited(1).succeeded());
}

TEST_CASE_METHOD(TableFixture, "a signal reaches the process, and nothing once it has ended") {
  const auto process = start_shell("trap 'echo caught; exit 7' TERM; echo ready; while :; do :; done");
  witness.wait_line(process.id);
  REQUIRE(table->signal(process.id, SIGTERM));
  const auto seen = witness.wait_end(process.id);
  CHECK(seen.out == Lines{"ready", "caught"});
  CHECK(seen.ends == std::vector{exited(7)});
  const auto late = table->signal(process.id, SIGTERM);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == Errc::not_found);
  const auto other = start_probe({"wait"});
  const auto wrong = table->signal(other.id, 4711);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().code() == Errc::invalid_argument);
  CHECK_THAT(wrong.error().message(), StartsWith("signal 4711 cannot be sent to process 2 "));
}

TEST_CASE_METHOD(TableFixture, "the end of the table ends and reaps all processes") {
  std::vector<Process> processes;
  for (int i = 0; i < 5; ++i)
    processes.push_back(start_shell("trap '' TERM INT HUP; echo ready; while :; do read x; done"));
  table.reset();
  for (const auto& process : processes) {
    CHECK(witness.wait_end(process.id).ends.size() == 1);
    CHECK((::kill(process.pid, 0) == -1 && errno == ESRCH));
  }
}

TEST_CASE_METHOD(TableFixture, "children of the program that are not the table's are left alone") {
  const pid_t other = ::fork();
  if (other == 0)
    ::_exit(5);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(other), &info, WEXITED | WNOWAIT) == 0);
  CHECK(run_shell("exit 1").ends == std::vector{exited(1)});
  table.reset();
  int status = 0;
  CHECK(::waitpid(other, &status, 0) == other);
  CHECK(WEXITSTATUS(status) == 5);
}

TEST_CASE_METHOD(TableFixture, "what a process leaves behind in its group is gone when its end is told") {
  const auto seen =
      run_shell("for i in 1 2 3 4 5 6 7 8; do " PROCESS_PROBE " wait > /dev/null & echo $!; done; exit 0");
  CHECK(seen.ends == std::vector{exited(0)});
  REQUIRE(seen.out.size() == 8);
  for (const auto& line : seen.out)
    CHECK(ends_soon(std::stoi(line), 0));
}

TEST_CASE_METHOD(TableFixture, "what a process leaves behind is reaped by a table that gets it") {
  // As the first process of a container does.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const auto seen = run_shell(PROCESS_PROBE " wait > /dev/null & echo $!; exit 0");
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  CHECK(seen.ends == std::vector{exited(0)});
  CHECK((::kill(std::stoi(seen.out.at(0)), 0) == -1 && errno == ESRCH));
}

TEST_CASE_METHOD(TableFixture, "a handler may start the next process") {
  ProcessTable* self = nullptr;
  std::promise<Process> second;
  auto chain = ProcessTable::make({{}, [&](const Process& process, const ExitStatus&) {
                                     if (process.tag == "first")
                                       second.set_value(*self->start({"/bin/sh", {"-c", "exit 0"}, {}, {}, "second"}));
                                   }});
  self = chain->get();
  REQUIRE(self->start({"/bin/sh", {"-c", "exit 0"}, {}, {}, "first"}));
  CHECK(second.get_future().get().tag == "second");
}

TEST_CASE_METHOD(TableFixture, "a killed parent takes its children along, and what they have started") {
  const bool is_frozen = GENERATE(false, true);
  const auto parent = start_probe({"parent"});
  const auto line = witness.wait_line(parent.id).out.at(0);
  const auto child = std::stoi(line);
  const auto other = std::stoi(line.substr(line.find(' ')));
  CHECK(::kill(child, 0) == 0);
  CHECK(::kill(other, 0) == 0);
  if (is_frozen)
    REQUIRE(::kill(child, SIGSTOP) == 0);
  ::kill(parent.pid, SIGKILL);
  CHECK(ends_soon(child));
  CHECK(ends_soon(other));
  CHECK(witness.wait_end(parent.id).ends == std::vector{ended_by(SIGKILL)});
}

TEST_CASE_METHOD(TableFixture, "a child whose parent is gone already ends itself") {
  const auto seen = witness.wait_end(start_probe({"child", "1"}).id);
  CHECK(seen.ends == std::vector{ended_by(SIGKILL)});
  CHECK(seen.out.empty());
  REQUIRE(seen.err.size() == 1);
  CHECK_THAT(seen.err[0], StartsWith("this process ends, because process " + std::to_string(::getpid())
                                     + " has started it, and not its node (process 1)"));
  CHECK_THAT(seen.err[0], Contains("starts the real one in its own place, by exec"));
}

// -- what they get --------------------------------------------------------------------------------

TEST_CASE_METHOD(TableFixture, "a process has its arguments, and variables as told") {
  ::setenv("GPUACTORS_TEST_KEPT", "kept", 1);
  ::setenv("GPUACTORS_TEST_CHANGED", "before", 1);
  ::setenv("GPUACTORS_TEST_REMOVED", "here", 1);
  const auto shell = start({"/bin/sh", {"-c", "echo \"$1|$2\"", "sh", "two words", "$HOME"}, {}, {}, {}});
  CHECK(witness.wait_end(shell.id).out == Lines{"two words|$HOME"});
  // Not by way of a shell, which would hide a name that is there twice.
  const auto process = start({"/usr/bin/env",
                              {},
                              {{"GPUACTORS_TEST_CHANGED", "after"}, {"GPUACTORS_TEST_NEW", "a=b c"}},
                              {"GPUACTORS_TEST_REMOVED", "GPUACTORS_TEST_NEW", "GPUACTORS_TEST_NEVER"},
                              {}});
  auto lines = witness.wait_end(process.id).out;
  const auto is_other = [](const std::string& line) { return line.rfind("GPUACTORS_TEST_", 0) != 0; };
  lines.erase(std::remove_if(lines.begin(), lines.end(), is_other), lines.end());
  std::sort(lines.begin(), lines.end());
  CHECK(lines == Lines{"GPUACTORS_TEST_CHANGED=after", "GPUACTORS_TEST_KEPT=kept", "GPUACTORS_TEST_NEW=a=b c"});
}

TEST_CASE_METHOD(TableFixture, "a process has three descriptors, whatever its parent has open") {
  const int leaky = ::open("/dev/null", O_RDONLY); // NOLINT(android-cloexec-open): that is the point
  const int high = ::fcntl(leaky, F_DUPFD, 900);
  REQUIRE(high >= 900);
  start_probe({"wait"});
  CHECK(witness.wait_end(start_probe({"descriptors"}).id).out == Lines{"0", "1", "2"});
  CHECK(run_shell("readlink /proc/$$/fd/0").out == Lines{"/dev/null"});
  ::close(leaky);
  ::close(high);
}

TEST_CASE_METHOD(TableFixture, "a process has no signal blocked or ignored, and a group of its own") {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto handler = std::signal(SIGPIPE, SIG_IGN); // NOLINT(cert-err33-c)
  {
    // Its thread inherits what is blocked.
    TableFixture other;
    CHECK(other.witness.wait_end(other.start_probe({"signals"}).id).out == Lines{"own group"});
  }
  std::signal(SIGPIPE, handler); // NOLINT(cert-err33-c)
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// -- what they write ------------------------------------------------------------------------------

TEST_CASE_METHOD(TableFixture, "all that is written before the end is handed over, both streams apart") {
  const auto seen = run_shell("i=0; while [ $i -lt 1000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; "
                              "printf 'no end'; printf 'a\\r\\n\\nb' >&2; kill -9 $$");
  REQUIRE(seen.out.size() == 1001);
  CHECK(seen.out[999] == "out 999");
  CHECK(seen.out[1000] == "no end");
  REQUIRE(seen.err.size() == 1003);
  CHECK(seen.err[1000] == "a");
  CHECK(seen.err[1001].empty());
  CHECK(seen.err[1002] == "b");
  CHECK(seen.ends == std::vector{ended_by(SIGKILL)});
}

TEST_CASE("what an ended process left in its pipes is read before its end is told") {
  std::promise<void> first_line;
  std::promise<void> go_on;
  std::promise<Lines> ended;
  Lines lines;
  auto table = ProcessTable::make({[&](const Process&, OutputStream, std::string_view text, LogTime) {
                                     lines.emplace_back(text);
                                     if (text != "first")
                                       return;
                                     first_line.set_value();
                                     go_on.get_future().wait();
                                   },
                                   [&](const Process&, const ExitStatus&) { ended.set_value(lines); }});
  const auto process = (*table)->start(
      {"/bin/sh", {"-c", "trap 'echo out; echo err >&2; exit 0' TERM; echo first; while :; do :; done"}, {}, {}, {}});
  REQUIRE(process.has_value());
  first_line.get_future().wait();
  REQUIRE((*table)->signal(process->id, SIGTERM));
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(process->pid), &info, WEXITED | WNOWAIT) == 0);
  go_on.set_value();
  CHECK(ended.get_future().get() == Lines{"first", "out", "err"});
}

TEST_CASE_METHOD(TableFixture, "a line without end is cut, and the next one is whole") {
  const auto seen = run_shell("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo next");
  REQUIRE(seen.out.size() == 2);
  CHECK(seen.out[0].substr(0, limits::log_line_bytes) == std::string(limits::log_line_bytes, 'x'));
  CHECK(seen.out[0].substr(limits::log_line_bytes) == " [99983616 more bytes]");
  CHECK(seen.out[1] == "next");
}

TEST_CASE_METHOD(TableFixture, "bytes that are no text are replaced") {
  CHECK(run_shell("printf 'a\\377b\\000c\\n'").out
        == Lines{"a\xEF\xBF\xBD"
                 "b\xEF\xBF\xBD"
                 "c"});
}

TEST_CASE_METHOD(TableFixture, "a process that floods keeps neither others nor its own end from being heard") {
  std::size_t lines = 0;
  std::promise<void> enough;
  auto counting = ProcessTable::make({[&](const Process&, OutputStream, std::string_view, LogTime) {
                                        if (++lines == 1'000'000)
                                          enough.set_value();
                                      },
                                      {}});
  REQUIRE((*counting)->start({"/bin/sh", {"-c", "exec yes flood"}, {}, {}, {}}));
  REQUIRE((*counting)->start({"/bin/sh", {"-c", "exec yes flood >&2"}, {}, {}, {}}));
  enough.get_future().wait();
  CHECK((*counting)->start({"/bin/sh", {"-c", "exit 0"}, {}, {}, {}}));
  counting->reset(); // returns though they would write on
}

TEST_CASE_METHOD(TableFixture, "a process waits while nobody takes what it writes") {
  TemporaryFolder folder;
  const auto done = folder / "done";
  std::promise<void> entered;
  std::promise<void> go_on;
  std::promise<void> ended;
  bool first = true;
  auto slow = ProcessTable::make({[&](const Process&, OutputStream, std::string_view, LogTime) {
                                    if (!std::exchange(first, false))
                                      return;
                                    entered.set_value();
                                    go_on.get_future().wait();
                                  },
                                  [&](const Process&, const ExitStatus&) { ended.set_value(); }});
  const auto script = "head -c 1000000 /dev/zero | tr '\\0' '\\n'; echo > " + done.string();
  REQUIRE((*slow)->start({"/bin/sh", {"-c", script}, {}, {}, {}}));
  entered.get_future().wait();
  // At most two pipes and one read of it have left the program.
  CHECK_FALSE(std::filesystem::exists(done));
  go_on.set_value();
  ended.get_future().wait();
  CHECK(std::filesystem::exists(done));
}

TEST_CASE_METHOD(TableFixture, "a descendant that keeps the pipe does not hold up the end") {
  const auto process =
      start_shell("trap 'exit 4' TERM; setsid sh -c 'echo $$; exec " PROCESS_PROBE " wait > /dev/null' & "
                  "while :; do wait; done");
  const auto descendant = std::stoi(witness.wait_line(process.id).out.at(0));
  REQUIRE(table->signal(process.id, SIGTERM));
  CHECK(witness.wait_end(process.id).ends == std::vector{exited(4)});
  CHECK(::kill(descendant, SIGKILL) == 0);
}

// -- what cannot be started -----------------------------------------------------------------------

TEST_CASE_METHOD(TableFixture, "what is no program is refused with what would be one") {
  TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text, bool executable) {
    const auto path = folder / name;
    std::ofstream{path} << text;
    std::filesystem::permissions(path, executable ? std::filesystem::perms{0700} : std::filesystem::perms{0600});
    return path;
  };
  const auto start_file = [&](const std::filesystem::path& path) {
    return why_not(table->start({path, {}, {}, {}, {}}), Errc::invalid_argument);
  };
  CHECK_THAT(start_file(folder / "none"), Contains("/none cannot be started: No such file or directory; a program's "
                                                   "full path is expected, PATH is not searched"));
  CHECK_THAT(start_file(write("plain", "x", false)), Contains("Permission denied; a file that this user may execute"));
  CHECK_THAT(start_file(folder.path()), Contains("Permission denied"));
  CHECK_THAT(start_file(write("text", "x", true)), Contains("Exec format error; a program for this machine"));
  CHECK_THAT(start_file(write("script", "#!/no/such\n", true)), Contains("the interpreter that it names is not"));
  CHECK_THAT(start_file(""), StartsWith("a process was to be started without a program"));
  CHECK_THAT(
      why_not(table->start({"/bin/sh", Lines(100, std::string(100'000, 'x')), {}, {}, {}}), Errc::invalid_argument),
      Contains("Argument list too long; arguments and environment may have"));
  CHECK_THAT(why_not(table->start({"/bin/sh", {std::string("a\0b", 3)}, {}, {}, {}}), Errc::invalid_argument),
             Contains("the character 0"));
  CHECK_THAT(why_not(table->start({"/bin/sh", {}, {{"A=B", ""}}, {}, {}}), Errc::invalid_argument),
             Contains("\"A=B\" is no name of a variable"));
  CHECK_THAT(why_not(table->start({"/bin/sh", {}, {{"A", std::string("a\0b", 3)}}, {}, {}}), Errc::invalid_argument),
             Contains("the variable A holds"));
  CHECK(run_shell("exit 0").ends == std::vector{exited(0)});
}

TEST_CASE_METHOD(TableFixture, "a thousand starts leave no descriptor and no process behind") {
  const int before = open_descriptors();
  std::vector<Process> batch;
  for (int i = 0; i < 1000; ++i) {
    batch.push_back(start({"/bin/true", {}, {}, {}, {}}));
    if (i % 5 == 0)
      CHECK_FALSE(table->start({"/no/such", {}, {}, {}, {}}).has_value());
    if (batch.size() == 50) {
      for (const auto& process : batch)
        CHECK(witness.wait_end(process.id).ends == std::vector{exited(0)});
      batch.clear();
    }
  }
  CHECK(open_descriptors() == before);
  CHECK((::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
}
