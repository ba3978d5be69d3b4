#include <gpuactors/broker/core/state_copy.hpp>
#include <gpuactors/broker/core/state_feed.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

StateCopy::StateCopy(std::shared_ptr<DesiredState> to, std::string address, std::uint64_t term) : to_(std::move(to)) {
  next_.set_address(std::move(address));
  next_.set_term(term);
}

Result<bool> StateCopy::take(const v1::StateChanges& answer) {
  auto more = apply(answer);
  if (!more) {
    // Part of it may be in the state by now, or on its way there.
    next_.set_log(0);
    next_.clear_copied();
  }
  return more;
}

Result<bool> StateCopy::apply(const v1::StateChanges& answer) {
  const bool is_copied = answer.anew() || next_.has_copied();
  if (answer.anew())
    GPUACTORS_TRY(clear());
  for (const auto& entry : answer.entries()) {
    if (entry.section() >= state_sections)
      return fail(Errc::invalid_argument,
                  fmt::format("an entry of section {} came, and {} are known", entry.section(), state_sections));
    const auto section = static_cast<StateSection>(entry.section());
    auto key = entry.name().empty() ? StateKey{entry.id()} : StateKey{entry.name()};
    if (entry.removed())
      to_->erase(section, std::move(key));
    else
      to_->put(section, std::move(key), entry.value());
  }
  next_.set_log(answer.log());
  next_.set_after(answer.after());
  if (is_copied && answer.more() && answer.entries_size() > 0) {
    auto& last = *next_.mutable_copied();
    last = *answer.entries().rbegin();
    last.clear_value();
    return true;
  }
  // Between two parts of a copy its entries may have changed: what follows them makes it a state that there was.
  const bool was_copied = is_copied;
  next_.clear_copied();
  if (was_copied || answer.more())
    return true;
  GPUACTORS_TRY(to_->commit());
  complete_ = true;
  return false;
}

Result<void> StateCopy::clear() {
  for (std::uint32_t number = 0; number < state_sections; ++number) {
    const auto section = static_cast<StateSection>(number);
    GPUACTORS_LET(entries, to_->load(section));
    for (auto& entry : entries)
      if (!is_own_entry(section, entry.key))
        to_->erase(section, std::move(entry.key));
  }
  return {};
}

} // namespace gpuactors
