// The types of these tests: what they do to the process that they run in.
#include "fixture.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <thread>

namespace gpuactors::test {

namespace {

[[noreturn]] void spin() {
  volatile int never_ending = 1;
  while (never_ending == 1) {
    // for ever
  }
  std::abort();
}

/// Ends the calling process, or this thread's usefulness, in the way that is asked for.
void fall(const std::string& how) {
  if (how == "abort")
    std::abort();
  if (how == "segmentation fault")
    ::raise(SIGSEGV);
  if (how == "bad_alloc")
    throw std::bad_alloc{};
  if (how == "endless loop") {
    std::cout << "an endless loop begins" << std::endl;
    spin();
  }
  if (how == "stop signal")
    ::raise(SIGSTOP);
  if (how == "kill")
    ::raise(SIGKILL);
}

/// A variable of this process's environment.
Text variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return text(value != nullptr ? value : "(not set)");
}

class Counter : public Actor {
public:
  Counter(Init init, const Number& start) : Actor(std::move(init)), sum_(start.value()) {
    if (auto state = saved<Number>(); state && *state)
      sum_ = (*state)->value();
  }

  /// Adds, and saves the sum for its next life.
  Result<Number> add_for_good(const Number& in) {
    GPUACTORS_TRY(save(number(sum_ + in.value())));
    return add(in);
  }

  /// Saves so many bytes, which may be too many.
  Result<Number> save_bytes(const Number& count) {
    GPUACTORS_TRY(save(text(std::string(static_cast<std::size_t>(count.value()), 'x'))));
    return number(0);
  }

  Result<Number> saved_bytes(const google::protobuf::Empty&) {
    GPUACTORS_LET(state, saved<Text>());
    return number(state ? static_cast<double>(state->text().size()) : 0);
  }

  Number add(const Number& in) {
    sum_ += in.value();
    return number(sum_);
  }

  /// The sum after each of the numbers.
  std::vector<Number> add_all(const BatchOf<Number>& batch) {
    std::vector<Number> sums;
    for (const auto& one : batch)
      sums.push_back(add(one));
    return sums;
  }

  /// The process, told while another method runs.
  [[nodiscard]] Number pid_at_once(const google::protobuf::Empty&) const {
    return number(::getpid());
  }

  /// Publishes the number, and how often it did.
  Result<Number> publish(const Number& value) {
    GPUACTORS_LET(gauge, metrics().gauge("published"));
    GPUACTORS_LET(count, metrics().counter("published_total"));
    gauge.set(value.value());
    count.add();
    return number(count.value());
  }

  /// Gives back what it is given, if it begins with the number of times that it was called before.
  Result<Text> take_turn(const Text& in) {
    const auto turn = std::to_string(turns_++) + ':';
    if (in.text().compare(0, turn.size(), turn) != 0)
      return fail(Errc::task_failed, "expected " + turn + ", got " + in.text().substr(0, turn.size()));
    return in;
  }

  Text text_of(const Number& size) {
    return text(std::string(static_cast<std::size_t>(size.value()), 'x'));
  }

  Number pid(const google::protobuf::Empty&) {
    return number(::getpid());
  }

  Text variable(const Text& name) {
    return test::variable(name.text());
  }

  /// Writes a line.
  Number say(const Text& line) {
    std::cout << line.text() << std::endl;
    return number(sum_);
  }

  Number restarts(const google::protobuf::Empty&) {
    return number(Actor::restarts());
  }

  Number fall(const Text& how) {
    test::fall(how.text());
    return number(0);
  }

  /// Falls unless it was started anew.
  Number fall_once(const Text& how) {
    if (Actor::restarts() == 0)
      test::fall(how.text());
    return number(Actor::restarts());
  }

  void count(const Number& in, ReplyStream<Number>& out) {
    for (int i = 0; i < static_cast<int>(in.value()); ++i)
      if (!out.write(number(i)))
        return;
  }

  /// Begins with this number; `tell` goes on.
  Result<void> watch(const Number& from, ReplyStream<Number>& out) {
    GPUACTORS_LET(kept, out.keep());
    GPUACTORS_TRY(kept.write(number(from.value())));
    watchers_.push_back(std::move(kept));
    return {};
  }

  /// Returns how many watchers are still there.
  Number watchers(const google::protobuf::Empty&) {
    std::erase_if(watchers_, [](const auto& one) { return one.stop_requested(); });
    return number(static_cast<double>(watchers_.size()));
  }

  /// Tells all watchers so many numbers, and ends their streams.
  void tell(const Number& count) {
    for (auto& watcher : watchers_) {
      for (int i = 0; i < static_cast<int>(count.value()); ++i)
        static_cast<void>(watcher.write(number(i)));
      watcher.finish();
    }
  }

  /// Starts another actor where there is room, and adds to its number.
  Result<Number> spawn(const Text& name) {
    GPUACTORS_LET(child, Cluster::from(*this).spawn("counter", number(0), {.name = name.text()}));
    return child.call<Number>("add", number(7)).get();
  }

  /// The process of a task, seen from here.
  Result<Number> submit_pid(const google::protobuf::Empty&) {
    return Cluster::from(*this).submit<Number>("pid", google::protobuf::Empty{}, {.cpus = 1}).get();
  }

  /// Adds to the number of the actor of this name.
  Result<Number> add_at(const Text& name) {
    GPUACTORS_LET(other, Cluster::from(*this).find(name.text()));
    return other.call<Number>("add", number(1)).get();
  }

  /// Adds to it a thousand times at once.
  Result<Number> add_often_at(const Text& name) {
    GPUACTORS_LET(other, Cluster::from(*this).find(name.text()));
    std::vector<Future<Number>> answers;
    for (int i = 0; i < 1'000; ++i)
      answers.push_back(other.call<Number>("add", number(1), std::chrono::seconds{20}));
    for (auto& answer : answers)
      GPUACTORS_TRY(answer.get());
    return number(1'000);
  }

  /// The reference to itself that it gives to others.
  Peers me(const google::protobuf::Empty&) {
    Peers result;
    *result.add_actors() = own_handle();
    return result;
  }

  /// Adds to the number of each of them.
  Result<Number> add_at_peers(const Peers& peers) {
    double sum = 0;
    for (const auto& peer : peers.actors()) {
      GPUACTORS_LET(other, Cluster::from(*this).find(peer));
      GPUACTORS_LET(answer, other.call<Number>("add", number(1)).get());
      sum += answer.value();
    }
    return number(sum);
  }

  /// Ends itself for this reason.
  Number finish(const Text& reason) {
    end(reason.text());
    return number(sum_);
  }

private:
  double sum_;
  int turns_ = 0;
  std::vector<OpenStream<Number>> watchers_;
};

} // namespace

} // namespace gpuactors::test

using namespace gpuactors;
using namespace gpuactors::test;

GPUACTORS_ACTOR("counter", test::Counter, Number)
    .method("add", &Counter::add)
    .batch_method("add_all", &Counter::add_all, {.max_size = 3, .max_wait = std::chrono::hours{24}})
    .concurrent_method("pid_at_once", &Counter::pid_at_once)
    .method("add_for_good", &Counter::add_for_good)
    .method("publish", &Counter::publish)
    .method("add_often_at", &Counter::add_often_at)
    .method("take_turn", &Counter::take_turn)
    .method("watch", &Counter::watch)
    .method("watchers", &Counter::watchers)
    .method("tell", &Counter::tell)
    .method("text_of", &Counter::text_of)
    .method("save_bytes", &Counter::save_bytes)
    .method("saved_bytes", &Counter::saved_bytes)
    .method("pid", &Counter::pid)
    .method("variable", &Counter::variable)
    .method("restarts", &Counter::restarts)
    .method("say", &Counter::say)
    .method("fall", &Counter::fall)
    .method("fall_once", &Counter::fall_once)
    .method("count", &Counter::count)
    .method("spawn", &Counter::spawn)
    .method("submit_pid", &Counter::submit_pid)
    .method("add_at", &Counter::add_at)
    .method("me", &Counter::me)
    .method("add_at_peers", &Counter::add_at_peers)
    .method("finish", &Counter::finish);

GPUACTORS_TASK("pid", [](TaskContext&, const google::protobuf::Empty&) { return number(::getpid()); });
GPUACTORS_TASK("fall", [](TaskContext&, const Text& how) {
  test::fall(how.text());
  return number(0);
});
// Ends a child of its own, which runs no program, by SIGTERM. @returns the signal that has ended the child.
GPUACTORS_TASK("end_child", [](TaskContext&, const google::protobuf::Empty&) -> Result<Number> {
  const auto child = ::fork();
  if (child == 0)
    for (;;)
      ::pause();
  int status = 0;
  if (child < 0 || ::kill(child, SIGTERM) != 0 || ::waitpid(child, &status, 0) != child)
    return fail(Errc::task_failed, "no child");
  return number(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
});
// What a program that a task starts finds in its status under this word, such as "SigBlk:".
GPUACTORS_TASK("status_of_child", [](TaskContext&, const Text& word) -> Result<Text> {
  const auto command = "exec grep " + word.text() + " /proc/self/status";
  std::FILE* const child = ::popen(command.c_str(), "re"); // NOLINT(cert-env33-c): a shell is what users start
  if (child == nullptr)
    return fail(Errc::task_failed, "no child");
  char line[128]{};
  const char* const read = std::fgets(line, sizeof(line), child);
  ::pclose(child);
  std::string status{read != nullptr ? read : ""};
  const auto number = status.find_first_not_of(" \t", word.text().size());
  return test::text(number < status.size() ? status.substr(number, status.find('\n') - number) : "");
});
GPUACTORS_TASK("variable", [](TaskContext&, const Text& name) { return test::variable(name.text()); });
// Makes a file and waits until somebody has removed it.
GPUACTORS_TASK("hold", [](TaskContext& ctx, const Text& path) {
  std::ofstream{path.text()}.close();
  while (std::filesystem::exists(path.text()) && !ctx.stop_requested())
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return number(::getpid());
});
GPUACTORS_TASK("nap", [](TaskContext& ctx, const Number& seconds) {
  const auto end = Clock::now() + from_seconds(seconds.value());
  while (Clock::now() < end && !ctx.stop_requested())
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return number(::getpid());
});
