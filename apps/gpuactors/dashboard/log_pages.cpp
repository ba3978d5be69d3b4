#include "log_pages.hpp"

#include <gpuactors/base/utf8.hpp>

#include <apps/gpuactors/words.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors::cli::dashboard {

LogPages::LogPages(Cluster& cluster) : cluster_(cluster), thread_([this](const std::stop_token& stop) { run(stop); }) {
  // nop
}

LogPages::~LogPages() {
  thread_.request_stop();
  check_deadline(never);
}

void LogPages::ask(ShownActor actor, PageReply reply) {
  {
    const std::lock_guard lock{mutex_};
    if (orders_.size() < most_waiting) {
      orders_.push_back({std::move(actor), std::move(reply), deadline_after(Clock::now(), patience)});
      wake_.notify_one();
      return;
    }
  }
  reply({503, PageAnswer{}.type, fmt::format("{} logs are asked for already: try again\n", most_waiting), {}});
}

void LogPages::check_deadline(TimePoint now) {
  const std::lock_guard lock{mutex_};
  if (reading_ && reading_->deadline <= now)
    reading_->stop.request_stop();
}

void LogPages::run(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock{mutex_};
    if (!wake_.wait(lock, stop, [this] { return !orders_.empty(); }) || stop.stop_requested())
      return;
    const auto order = std::move(orders_.front());
    orders_.pop_front();
    // Its reader has been told meanwhile that there was no answer.
    if (Clock::now() >= order.deadline)
      continue;
    reading_ = Reading{order.deadline, {}};
    const auto token = reading_->stop.get_token();
    lock.unlock();
    order.reply(read(order.actor, token));
    lock.lock();
    reading_.reset();
  }
}

PageAnswer LogPages::read(const ShownActor& actor, const std::stop_token& stop) {
  LogsOptions options;
  options.node = actor.ended_on;
  options.count = most_lines;
  options.stop = stop;
  std::string text;
  std::size_t lines = 0;
  const auto done = cluster_.logs(actor.handle, options, [&](const LogRecord& line) {
    text += plain_line(log_line_in_words(line)) + "\n";
    return ++lines < most_lines;
  });
  const auto& shown = actor.name;
  if (!done)
    return {503, PageAnswer{}.type, plain_line(done.error().message()) + "\n", {}};
  text += plain_line(stop.stop_requested() ? fmt::format("(node of {} did not send more in time)", shown)
                     : lines == 0          ? fmt::format("({} has printed nothing)", shown)
                                           : fmt::format("(the last {} lines of {})", lines, shown))
          + "\n";
  return {200, PageAnswer{}.type, std::move(text), {}};
}

std::string plain_line(const std::string& line) {
  auto plain = to_utf8(clipped(line, LogPages::longest_line));
  for (auto& c : plain)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F)
      c = '?';
  return plain;
}

} // namespace gpuactors::cli::dashboard
