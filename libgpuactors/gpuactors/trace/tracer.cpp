#include <gpuactors/base/limits.hpp>
#include <gpuactors/trace/detail/http_sink.hpp>
#include <gpuactors/trace/otlp.hpp>
#include <gpuactors/trace/span.hpp>
#include <gpuactors/trace/tracer.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <system_error>
#include <utility>

namespace gpuactors {

namespace {

/// A batch is sent so often, with pauses in between that double from the first one.
constexpr int most_attempts = 5;
constexpr Duration first_pause = std::chrono::seconds{1};

/// The tracer of this process, once it is made.
std::atomic<Tracer*>& made_tracer() {
  static std::atomic<Tracer*> made{nullptr};
  return made;
}

} // namespace

Tracer::Tracer(TraceOptions options, std::unique_ptr<SpanSink> sink, std::function<void(const std::string&)> notice)
  : options_(std::move(options)), sink_(std::move(sink)), notice_(std::move(notice)), process_(::getpid()),
    thread_([this] { run(); }) {
  // nop
}

Tracer::~Tracer() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Tracer::record(SpanRecord span) {
  // After a fork, the mutex may be held by a thread that is no more.
  if (::getpid() != process_)
    return;
  bool full = false;
  {
    const std::lock_guard lock{mutex_};
    if (waiting_.size() >= options_.queue) {
      ++crowded_out_;
      return;
    }
    ++recorded_;
    waiting_.push_back(std::move(span));
    full = waiting_.size() == options_.batch;
  }
  if (full)
    wake_.notify_one();
}

bool Tracer::flush(Duration timeout) {
  if (::getpid() != process_)
    return true;
  std::unique_lock lock{mutex_};
  const auto wanted = recorded_;
  hurry_to_ = wanted;
  wake_.notify_one();
  return flushed_.wait_until(lock,
                             std::min(deadline_after(Clock::now(), timeout), Clock::now() + std::chrono::hours{1}),
                             [&] { return settled_ >= wanted; });
}

void Tracer::run() {
  // Signals are for the program's own threads; and TLS writes to a connection that its collector has closed raise
  // SIGPIPE.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    wake_.wait_for(lock, options_.delay,
                   [this] { return stopping_ || in_hurry() || waiting_.size() >= options_.batch; });
    while (!waiting_.empty() && !stopping_) {
      const auto count = std::min(waiting_.size(), options_.batch);
      const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
      std::vector<SpanRecord> batch{std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end)};
      waiting_.erase(waiting_.begin(), end);
      deliver(lock, std::move(batch));
      settled_ += count;
      flushed_.notify_all();
      // What has come meanwhile may wait, unless it is a batch.
      if (!in_hurry() && waiting_.size() < options_.batch)
        break;
    }
  }
}

void Tracer::deliver(std::unique_lock<std::mutex>& lock, std::vector<SpanRecord> spans) {
  // Whoever records waits for the lock.
  lock.unlock();
  const auto count = spans.size();
  const auto body =
      to_otlp(options_.resource, std::exchange(spans, {}), Clock::now(), std::chrono::system_clock::now());
  auto pause = first_pause;
  auto sent = sink_->send(body);
  lock.lock();
  for (int attempt = 1; !sent && sent.error().code() == Errc::unavailable && attempt < most_attempts; ++attempt) {
    // Whoever flushes has no time for pauses.
    if (wake_.wait_for(lock, pause, [this] { return stopping_ || in_hurry(); }))
      break;
    pause *= 2;
    lock.unlock();
    sent = sink_->send(body);
    lock.lock();
  }
  const auto crowded_out = std::exchange(crowded_out_, 0);
  lock.unlock();
  tell(sent, sent ? crowded_out : count + crowded_out);
  lock.lock();
}

void Tracer::tell(const Result<void>& sent, std::size_t lost) {
  const auto before = std::exchange(losing_, !sent ? Losing::all : lost > 0 ? Losing::some : Losing::none);
  if (losing_ == before)
    return;
  if (losing_ == Losing::all)
    notice_(fmt::format("{} spans were lost, and so will others be until it works: {}", lost, sent.error().message()));
  else if (losing_ == Losing::some)
    notice_(fmt::format("{} spans were lost, and so will others be: more than {} wait", lost, options_.queue));
  else
    notice_(fmt::format("spans arrive at {} again, all of them", options_.url));
}

Tracer* process_tracer() {
  static Tracer* const tracer = []() -> Tracer* {
    const auto say = [](const std::string& text) { std::fprintf(stderr, "gpuactors: traces: %s\n", text.c_str()); };
    auto options = read_trace_options([](const char* name) -> std::optional<std::string> {
      const char* value = std::getenv(name);
      return value != nullptr ? std::optional<std::string>{value} : std::nullopt;
    });
    if (options && !*options)
      return nullptr;
    auto sink = options ? detail::make_http_sink(**options) : Result<std::unique_ptr<SpanSink>>{fail(options.error())};
    if (!sink) {
      say(fmt::format("nothing is recorded: {}", sink.error().message()));
      return nullptr;
    }
    detail::describe_process(**options);
    try {
      auto* made = new Tracer{std::move(**options), std::move(*sink), say};
      // The last spans of a process that ends in order. A collector that does not answer must not keep it.
      std::atexit([] { flush_traces(limits::trace_flush); });
      made_tracer() = made;
      return made;
    } catch (const std::system_error& error) {
      say(fmt::format("nothing is recorded: there is no thread for it: {}", error.what()));
      return nullptr;
    }
  }();
  return tracer;
}

void flush_traces(Duration timeout) {
  if (auto* tracer = made_tracer().load())
    tracer->flush(timeout);
}

} // namespace gpuactors
