#include <gpuactors/base/revisions.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/broker/core/state_copy.hpp>
#include <gpuactors/broker/core/state_feed.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace gpuactors {

namespace {

bool is_revision(const v1::StateEntry& entry) {
  return entry.section() == static_cast<std::uint32_t>(StateSection::ids) && entry.name() == revision_key;
}

Result<void> check_revision(const v1::StateEntry& entry) {
  const auto revision = std::strtoull(entry.value().c_str(), nullptr, 10);
  if (revision <= state_revision)
    return {};
  return fail(Errc::unsupported,
              fmt::format("the active broker keeps a state of revision {}, and release {}, which would copy it, knows "
                          "those up to {}: upgrade the broker that stands by first",
                          revision, release, state_revision));
}

} // namespace

StateCopy::StateCopy(std::shared_ptr<DesiredState> to, std::string address, std::uint64_t term, bool has_copy)
  : to_(std::move(to)) {
  next_.set_address(std::move(address));
  next_.set_term(term);
  next_.set_has_copy(has_copy);
}

Result<bool> StateCopy::take(const v1::StateChanges& answer) {
  auto more = apply(answer);
  if (!more) {
    next_.set_log(0);
    next_.clear_copied();
  }
  return more;
}

Result<bool> StateCopy::apply(const v1::StateChanges& answer) {
  const bool is_copied = answer.anew() || next_.has_copied();
  if (answer.anew()) {
    taken_.clear();
    anew_ = true;
  }
  for (const auto& entry : answer.entries()) {
    if (is_revision(entry)) {
      GPUACTORS_TRY(check_revision(entry));
      continue;
    }
    if (entry.section() >= state_sections)
      return fail(Errc::invalid_argument,
                  fmt::format("an entry of section {} came, and {} are known", entry.section(), state_sections));
    auto key = entry.name().empty() ? StateKey{entry.id()} : StateKey{entry.name()};
    auto& value = taken_[{static_cast<StateSection>(entry.section()), std::move(key)}];
    value = entry.removed() ? std::nullopt : std::optional{entry.value()};
  }
  next_.set_log(answer.log());
  next_.set_after(answer.after());
  if (is_copied && answer.more() && answer.entries_size() > 0) {
    auto& last = *next_.mutable_copied();
    last = *answer.entries().rbegin();
    last.clear_value();
    return true;
  }
  next_.clear_copied();
  // Between two parts of a copy its entries may have changed: what follows them makes it a state that there was.
  if (is_copied || answer.more())
    return true;
  GPUACTORS_TRY(write());
  return false;
}

Result<void> StateCopy::write() {
  if (anew_)
    GPUACTORS_TRY(clear());
  for (auto& [key, value] : taken_) {
    unsure_.insert(key);
    if (value)
      to_->put(key.first, key.second, *value);
    else
      to_->erase(key.first, key.second);
  }
  to_->put(StateSection::ids, std::string{copied_key}, "1");
  GPUACTORS_TRY(to_->commit());
  if (const auto term = taken_.find({StateSection::ids, std::string{term_key}}); term != taken_.end() && term->second)
    next_.set_term(std::strtoull(term->second->c_str(), nullptr, 10));
  taken_.clear();
  unsure_.clear();
  anew_ = false;
  complete_ = true;
  next_.set_has_copy(true);
  return {};
}

Result<void> StateCopy::clear() {
  // Not among the committed entries, and written with the next ones all the same.
  for (const auto& [section, key] : unsure_)
    to_->erase(section, key);
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
