#include <gpuactors/base/revisions.hpp>
#include <gpuactors/broker/core/state_feed.hpp>

#include <algorithm>

namespace gpuactors {

namespace {

std::size_t bytes_of(const std::optional<std::string>& value) {
  constexpr std::size_t overhead = 64;
  return overhead + (value ? value->size() : 0);
}

StateKey key_of(const v1::StateEntry& entry) {
  if (entry.name().empty())
    return entry.id();
  return entry.name();
}

} // namespace

bool is_own_entry(StateSection section, const StateKey& key) {
  const auto* name = std::get_if<std::string>(&key);
  return section == StateSection::ids && name != nullptr && *name != reserved_ids_key && *name != term_key
         && *name != lineage_key;
}

v1::StateEntry to_wire(StateSection section, const StateKey& key, const std::optional<std::string>& value) {
  v1::StateEntry entry;
  entry.set_section(static_cast<std::uint32_t>(section));
  if (const auto* id = std::get_if<std::uint64_t>(&key))
    entry.set_id(*id);
  else
    entry.set_name(std::get<std::string>(key));
  if (value)
    entry.set_value(*value);
  else
    entry.set_removed(true);
  return entry;
}

StateFeed::StateFeed(std::shared_ptr<DesiredState> store, std::uint64_t log) : store_(std::move(store)), log_(log) {
  // nop
}

// -- the state ------------------------------------------------------------------------------------

void StateFeed::put(StateSection section, StateKey key, std::string value) {
  if (!is_own_entry(section, key))
    pending_[{section, key}] = value;
  store_->put(section, std::move(key), std::move(value));
}

void StateFeed::erase(StateSection section, StateKey key) {
  if (!is_own_entry(section, key))
    pending_[{section, key}] = std::nullopt;
  store_->erase(section, std::move(key));
}

Result<void> StateFeed::commit() {
  GPUACTORS_TRY(store_->commit());
  auto committed = std::exchange(pending_, {});
  if (!followed_)
    return {};
  for (auto& change : committed) {
    changes_bytes_ += bytes_of(change.second);
    changes_.emplace_back(change.first, std::move(change.second));
    ++number_;
  }
  // A follower that is further behind begins anew.
  while (changes_bytes_ > limits::remembered_changes_bytes) {
    changes_bytes_ -= bytes_of(changes_.front().second);
    changes_.pop_front();
  }
  return {};
}

Result<std::vector<StateEntry>> StateFeed::load(StateSection section) const {
  return store_->load(section);
}

// -- followers ------------------------------------------------------------------------------------

Result<v1::StateChanges> StateFeed::read(const v1::FollowState& request) {
  v1::StateChanges answer;
  answer.set_log(log_);
  const auto oldest = number_ - changes_.size();
  const bool is_known = request.log() == log_ && request.after() >= oldest && request.after() <= number_;
  if (!is_known) {
    followed_ = true;
    copied_.reset();
    answer.set_anew(true);
    answer.set_after(number_);
    *answer.add_entries() = to_wire(StateSection::ids, std::string{revision_key}, std::to_string(state_revision));
    GPUACTORS_TRY(copy(nullptr, answer));
    return answer;
  }
  answer.set_after(request.after());
  if (request.has_copied()) {
    GPUACTORS_TRY(copy(&request.copied(), answer));
    return answer;
  }
  copied_.reset();
  std::size_t bytes = 0;
  for (auto at = request.after() - oldest; at < changes_.size() && bytes < limits::state_part_bytes; ++at) {
    const auto& [key, value] = changes_[at];
    bytes += bytes_of(value);
    *answer.add_entries() = to_wire(key.first, key.second, value);
    answer.set_after(oldest + at + 1);
  }
  answer.set_more(answer.after() < number_);
  return answer;
}

Result<void> StateFeed::copy(const v1::StateEntry* last, v1::StateChanges& answer) {
  std::size_t bytes = 0;
  for (auto number = last == nullptr ? 0U : last->section(); number < state_sections; ++number) {
    const auto section = static_cast<StateSection>(number);
    if (!copied_ || copied_->first != section) {
      GPUACTORS_LET(entries, store_->load(section));
      copied_.emplace(section, std::move(entries));
    }
    // Entries may have come and gone since the last part: the changes tell.
    for (const auto& entry : copied_->second) {
      if (last != nullptr && last->section() == number && entry.key <= key_of(*last))
        continue;
      if (is_own_entry(section, entry.key))
        continue;
      if (bytes >= limits::state_part_bytes) {
        answer.set_more(true);
        return {};
      }
      bytes += bytes_of(entry.value);
      *answer.add_entries() = to_wire(section, entry.key, entry.value);
    }
  }
  copied_.reset();
  return {};
}

} // namespace gpuactors
