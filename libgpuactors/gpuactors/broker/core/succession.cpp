#include <gpuactors/broker/core/succession.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

Succession::Succession(Rules rules, std::set<std::string> nodes, TimePoint now)
  : rules_(rules), nodes_(std::move(nodes)), answered_(now) {
  // nop
}

void Succession::answered(std::set<std::string> nodes, TimePoint now) {
  nodes_ = std::move(nodes);
  // Whoever had asked is there again, or asks again.
  stood_still(now);
}

void Succession::stood_still(TimePoint now) {
  answered_ = now;
  asked_.clear();
  enough_since_.reset();
}

void Succession::asked(const std::string& node, TimePoint now) {
  std::erase_if(asked_, [&](const auto& entry) { return now - entry.second > rules_.vote_lasts; });
  if (votes(now) < needed(now))
    enough_since_.reset();
  asked_[node] = now;
  if (!enough_since_ && votes(now) >= needed(now))
    enough_since_ = now;
}

std::size_t Succession::votes(TimePoint now) const {
  return static_cast<std::size_t>(std::count_if(
      asked_.begin(), asked_.end(), [&](const auto& entry) { return now - entry.second <= rules_.vote_lasts; }));
}

std::size_t Succession::all(TimePoint now) const {
  return nodes_.size() + static_cast<std::size_t>(std::count_if(asked_.begin(), asked_.end(), [&](const auto& entry) {
           return now - entry.second <= rules_.vote_lasts && nodes_.count(entry.first) == 0;
         }));
}

std::size_t Succession::needed(TimePoint now) const {
  return rules_.votes > 0 ? rules_.votes : all(now) / 2 + 1;
}

bool Succession::is_old() const {
  // Where the active broker dies, nodes notice it as this one does, and come as soon as they have tried once.
  return !copied_ || (enough_since_ && *enough_since_ - *copied_ > rules_.patience + rules_.vote_lasts);
}

bool Succession::is_due(TimePoint now) const {
  if (!has_copy_ || now - answered_ <= rules_.patience || votes(now) < needed(now) || !enough_since_)
    return false;
  return !is_old() || now - *enough_since_ > rules_.old_copy_waits;
}

std::string Succession::describe(TimePoint now) const {
  auto text = fmt::format("it has not answered for {:.1f} s, and {} of {} nodes have asked here, of which {} have to",
                          to_seconds(now - answered_), votes(now), all(now), needed(now));
  if (copied_ && is_old())
    text += fmt::format("; the copy of its state is {:.0f} s old", to_seconds(now - *copied_));
  else if (is_old())
    text += "; the copy of its state is from before this process began";
  return text;
}

} // namespace gpuactors
