#include <gpuactors/agent/log_sources.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gpuactors {

namespace {

constexpr std::string_view actor_word = "actor ";
constexpr std::string_view task_word = "task ";
constexpr std::string_view worker_word = "worker ";

/// Parses "12 trainer" as id and name; `other` with all of the text if it has another form.
LogSource numbered(LogSource::Kind kind, std::string_view text, std::string_view all) {
  LogSource result{kind, 0, {}};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, result.id);
  if (error != std::errc{} || rest == end || *rest != ' ')
    return {LogSource::Kind::other, 0, std::string{all}};
  result.name.assign(rest + 1, end);
  return result;
}

} // namespace

std::string to_string(const LogSource& source) {
  auto name = source.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  switch (source.kind) {
  case LogSource::Kind::actor:
    return fmt::format("{}{} {}", actor_word, source.id, name);
  case LogSource::Kind::task:
    return fmt::format("{}{}", task_word, name);
  case LogSource::Kind::worker:
    return fmt::format("{}{} {}", worker_word, source.id, name);
  case LogSource::Kind::other:
    break;
  }
  return name;
}

LogSource parse_log_source(std::string_view text) {
  if (text.starts_with(actor_word))
    return numbered(LogSource::Kind::actor, text.substr(actor_word.size()), text);
  if (text.starts_with(worker_word))
    return numbered(LogSource::Kind::worker, text.substr(worker_word.size()), text);
  if (text.starts_with(task_word))
    return {LogSource::Kind::task, 0, std::string{text.substr(task_word.size())}};
  return {LogSource::Kind::other, 0, std::string{text}};
}

void LogSources::add_worker(std::uint64_t worker, const LogSource& source) {
  const std::lock_guard lock{mutex_};
  workers_[worker].source = to_string(source);
}

void LogSources::add_holder(std::uint64_t worker, LeaseId lease, const LogSource& source, LogTime since) {
  const std::lock_guard lock{mutex_};
  workers_[worker].holders[lease] = to_string(source);
  if (source.kind != LogSource::Kind::actor)
    return;
  const Stay stay{ActorId{source.id}, worker};
  // Rounded like times in the log. Of several stays in one worker, the first counts.
  if (!stays_.emplace(stay, std::chrono::floor<std::chrono::microseconds>(since)).second)
    return;
  order_.push_back(stay);
  if (order_.size() > limits::log_stays) {
    stays_.erase(order_.front());
    order_.pop_front();
  }
}

void LogSources::remove_holder(std::uint64_t worker, LeaseId lease) {
  const std::lock_guard lock{mutex_};
  const auto found = workers_.find(worker);
  if (found == workers_.end())
    return;
  auto& ended = found->second.ended;
  ended.push_back(lease);
  if (ended.size() > limits::log_ended_holders) {
    found->second.holders.erase(ended.front());
    ended.pop_front();
  }
}

void LogSources::remove_worker(std::uint64_t worker) {
  const std::lock_guard lock{mutex_};
  workers_.erase(worker);
}

std::string LogSources::source_of(std::uint64_t worker, LeaseId holder) const {
  const std::lock_guard lock{mutex_};
  const auto found = workers_.find(worker);
  if (found == workers_.end())
    return to_string(LogSource{LogSource::Kind::worker, worker, "process"});
  const auto known = found->second.holders.find(holder);
  return known == found->second.holders.end() ? found->second.source : known->second;
}

bool LogSources::concerns(ActorId actor, const LogLine& line) const {
  const auto source = parse_log_source(line.source);
  if (source.kind == LogSource::Kind::actor)
    return source.id == actor.value();
  if (source.kind != LogSource::Kind::worker)
    return false;
  const std::lock_guard lock{mutex_};
  const auto stay = stays_.find({actor, source.id});
  return stay != stays_.end() && stay->second <= line.time;
}

} // namespace gpuactors
