// Matching calls against the rules of a plan.
#include <gpuactors/device/faulty.hpp>

namespace gpuactors::faulty {

namespace {

constexpr std::array<std::string_view, call_kinds> names{
    "open",   "memory",   "make_stream", "synchronize", "make_event", "record", "wait",    "query",
    "notify", "allocate", "copy",        "fill",        "launch",     "gemm",   "capture",
};

Failure context_lost_failure() {
  return fail(Errc::context_lost, "the context is lost (injected)");
}

} // namespace

std::string_view to_string(Call call) noexcept {
  const auto index = static_cast<std::size_t>(call);
  return index < names.size() ? names[index] : "unknown";
}

void Plan::fail_at(Call call, std::uint64_t n, Error error) {
  add({call, n, false, false, std::move(error), nullptr});
}

void Plan::fail_from(Call call, std::uint64_t n, Error error) {
  add({call, n, true, false, std::move(error), nullptr});
}

void Plan::fail_at_point(std::uint64_t n, Error error) {
  add({std::nullopt, n, false, false, std::move(error), nullptr});
}

void Plan::lose_context_at(Call call, std::uint64_t n) {
  add({call, n, false, true, std::nullopt, nullptr});
}

void Plan::delay(Call call, std::uint64_t n, std::function<void()> before) {
  add({call, n, false, false, std::nullopt, std::move(before)});
}

void Plan::add(Rule rule) {
  std::lock_guard guard{mutex_};
  rules_.push_back(std::move(rule));
}

void Plan::reset() {
  std::lock_guard guard{mutex_};
  rules_.clear();
  counts_.fill(0);
  total_ = 0;
  lost_ = false;
}

std::uint64_t Plan::calls(Call call) const {
  std::lock_guard guard{mutex_};
  return counts_[static_cast<std::size_t>(call)];
}

std::uint64_t Plan::calls() const {
  std::lock_guard guard{mutex_};
  return total_;
}

Held Plan::held() const {
  std::lock_guard guard{mutex_};
  return held_;
}

bool Plan::context_lost() const {
  std::lock_guard guard{mutex_};
  return lost_;
}

Result<void> Plan::enter(Call call) {
  std::vector<std::function<void()>> delays;
  std::optional<Error> error;
  {
    std::lock_guard guard{mutex_};
    const auto of_kind = ++counts_[static_cast<std::size_t>(call)];
    const auto of_all = ++total_;
    for (const auto& rule : rules_) {
      const auto at = rule.call ? of_kind : of_all;
      if ((rule.call && *rule.call != call) || at < rule.n || (at > rule.n && !rule.on_and_on))
        continue;
      lost_ = lost_ || rule.loses_context;
      if (rule.before)
        delays.push_back(rule.before);
      if (rule.error && !error)
        error = rule.error;
    }
  }
  for (const auto& before : delays)
    before();
  if (context_lost())
    return context_lost_failure();
  if (error)
    return fail(std::move(*error));
  return {};
}

void Plan::count(std::int64_t Held::*what, std::int64_t change) {
  std::lock_guard guard{mutex_};
  held_.*what += change;
}

} // namespace gpuactors::faulty
