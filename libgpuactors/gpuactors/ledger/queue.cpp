#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/queue.hpp>

#include <algorithm>
#include <utility>

namespace gpuactors::ledger_detail {

void Ages::insert(std::uint64_t age) {
  if (empty()) {
    least_ = age;
    return;
  }
  if (!others_)
    others_ = std::make_unique<std::set<std::uint64_t>>();
  others_->insert(std::max(age, least_));
  least_ = std::min(age, least_);
}

void Ages::erase(std::uint64_t age) {
  if (age == least_)
    least_ = others_ ? *others_->begin() : 0;
  if (!others_)
    return;
  others_->erase(std::max(age, least_));
  if (others_->empty())
    others_.reset();
}

Shape& Queue::shape_of(ShapeKey key, Prospect prospect) {
  const auto [it, added] = shapes_.try_emplace(std::move(key));
  if (added) {
    it->second.key = &it->first;
    it->second.prospect = prospect;
  }
  return it->second;
}

Shape* Queue::find_shape(const ShapeKey& key) {
  const auto it = shapes_.find(key);
  return it == shapes_.end() ? nullptr : &it->second;
}

void Queue::enter(Shape& shape) {
  if (shape.key->request.owner.empty())
    heads_.emplace(shape.head(), &shape);
  wakes_.insert(shape);
}

void Queue::leave(Shape& shape) {
  heads_.erase(shape.head());
  wakes_.erase(shape);
}

void Queue::attach(Shape& shape, std::uint64_t age) {
  const bool first = shape.ages.empty();
  const bool moves = shape.prospect.feasible && (first || age < shape.head().age);
  if (moves && !first)
    leave(shape);
  shape.ages.insert(age);
  if (moves)
    enter(shape);
}

void Queue::detach(Shape& shape, std::uint64_t age) {
  const bool moves = shape.prospect.feasible && age == shape.head().age;
  if (moves)
    leave(shape);
  shape.ages.erase(age);
  if (shape.ages.empty())
    shapes_.erase(shapes_.find(*shape.key));
  else if (moves)
    enter(shape);
}

Entry& Queue::add(Entry entry) {
  attach(*entry.shape, entry.key.age);
  if (entry.request)
    by_request_.emplace(entry.request, entry.key);
  if (entry.deadline != never)
    deadlines_.emplace(entry.deadline, entry.key);
  const auto key = entry.key;
  const auto [it, added] = entries_.emplace(key, std::move(entry));
  GPUACTORS_LEDGER_CHECK(added, "two entries have one place in the queue");
  return it->second;
}

Entry Queue::remove(QueueKey key) {
  auto node = entries_.extract(key);
  GPUACTORS_LEDGER_CHECK(!node.empty(), "an entry left the queue twice");
  auto entry = std::move(node.mapped());
  detach(*entry.shape, key.age);
  entry.shape = nullptr;
  if (entry.request)
    by_request_.erase(entry.request);
  if (entry.deadline != never)
    deadlines_.erase({entry.deadline, key});
  return entry;
}

void Queue::move(QueueKey key, Shape& to) {
  auto& entry = entries_.at(key);
  detach(*entry.shape, key.age);
  attach(to, key.age);
  entry.shape = &to;
}

void Queue::set_prospect(Shape& shape, Prospect prospect) {
  const auto last = shape.prospect;
  // The index of what wakes has the charge.
  const bool moves = prospect.feasible != last.feasible || prospect.charge != last.charge;
  if (moves && last.feasible)
    leave(shape);
  shape.prospect = prospect;
  if (moves && prospect.feasible)
    enter(shape);
}

const Entry* Queue::find(QueueKey key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

const Entry* Queue::find(RequestId id) const {
  const auto it = by_request_.find(id);
  return it == by_request_.end() ? nullptr : find(it->second);
}

void Queue::check() const {
  std::size_t count = 0;
  std::size_t feasible = 0;
  std::size_t unbounded = 0;
  for (const auto& [key, shape] : shapes_) {
    GPUACTORS_LEDGER_CHECK(!shape.ages.empty(), "a shape is kept that nothing waits with");
    count += shape.ages.size();
    feasible += shape.prospect.feasible ? 1 : 0;
    if (!shape.prospect.feasible)
      continue;
    if (!key.request.owner.empty())
      continue;
    ++unbounded;
    const auto it = heads_.find(shape.head());
    GPUACTORS_LEDGER_CHECK(it != heads_.end() && it->second == &shape, "a shape is not at its place in the queue");
  }
  GPUACTORS_LEDGER_CHECK(count == entries_.size(), "entries and shapes of the queue disagree");
  GPUACTORS_LEDGER_CHECK(wakes_.size() == feasible, "the queue would not wake all that it holds");
  GPUACTORS_LEDGER_CHECK(unbounded == heads_.size(), "the queue has heads of no shape");
  std::size_t owned = 0;
  for (const auto& [owner, shapes] : wakes_.owned())
    owned += shapes.index.size();
  GPUACTORS_LEDGER_CHECK(owned + unbounded == feasible, "the queue has shapes of owners that are not there");
  for (const auto& [key, entry] : entries_)
    GPUACTORS_LEDGER_CHECK(entry.shape->ages.contains(key.age), "an entry is not in its shape");
}

} // namespace gpuactors::ledger_detail
