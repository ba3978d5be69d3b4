// ProcessAgent: passes clients' queries about the node's log to the readers, and the answers back.
#include <gpuactors/agent/process_agent.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

namespace {

v1::LogLines to_wire(LogAnswer answer) {
  v1::LogLines message;
  message.set_dropped(answer.dropped);
  for (auto& line : answer.lines) {
    auto* entry = message.add_lines();
    entry->set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(line.time.time_since_epoch()).count());
    entry->set_node(std::move(line.node));
    entry->set_source(std::move(line.source));
    entry->set_stream(std::string{to_string(line.stream)});
    entry->set_text(std::move(line.text));
  }
  return message;
}

} // namespace

caf::result<v1::LogLines> ProcessAgent::read_log(const v1::ReadLog& message) {
  if (!options_.read_log)
    return to_caf(Error{Errc::unsupported, fmt::format("node {} keeps no log", options_.node.name())});
  LogQuery query;
  query.reader = message.reader();
  query.actor = ActorId{message.actor()};
  query.count = message.count();
  query.follow = message.follow();
  // Bounds the wait before the conversion; the readers wait for at most `limits::log_wait` anyway.
  const auto most = static_cast<std::uint64_t>(2 * std::chrono::milliseconds{limits::log_wait}.count());
  query.wait = std::chrono::milliseconds{std::min(message.wait_ms(), most)};
  const auto ticket = ++last_reader_;
  auto promise = make_response_promise<v1::LogLines>();
  readers_.emplace(ticket, promise);
  options_.read_log(query, [ticket, answers = answers_,
                            self = caf::actor_cast<caf::strong_actor_ptr>(this)](Result<LogAnswer> answer) {
    {
      const std::lock_guard lock{answers->mutex};
      answers->ready.emplace_back(ticket, std::move(answer));
    }
    v1::Tick tick;
    tick.set_what(static_cast<std::uint32_t>(Due::log_readers));
    caf_version::post(self, std::move(tick));
  });
  return promise;
}

void ProcessAgent::answer_readers() {
  std::vector<std::pair<std::uint64_t, Result<LogAnswer>>> ready;
  {
    const std::lock_guard lock{answers_->mutex};
    ready.swap(answers_->ready);
  }
  for (auto& [ticket, answer] : ready) {
    auto reader = readers_.extract(ticket);
    if (reader.empty())
      continue;
    if (answer)
      reader.mapped().deliver(to_wire(std::move(*answer)));
    else
      reader.mapped().deliver(to_caf(answer.error()));
  }
}

} // namespace gpuactors
