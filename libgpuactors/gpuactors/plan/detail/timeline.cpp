#include <gpuactors/plan/detail/svg.hpp>
#include <gpuactors/plan/detail/timeline.hpp>

#include <fmt/format.h>

#include <ostream>

namespace gpuactors::plan_detail {

bool TimelineRecorder::add(Block block) {
  if (timeline_.stopped_at != Block::open)
    return false;
  if (timeline_.blocks.size() == most_blocks) {
    timeline_.stopped_at = block.from;
    return false;
  }
  timeline_.blocks.push_back(std::move(block));
  return true;
}

void TimelineRecorder::begin(std::size_t step, Block::Kind kind, const DeviceKey& device, const char* text) {
  if (states_.count({device, kind}) == 0 && add({kind, device, {0, Share::one}, step, Block::open, 0, 0, "", text}))
    states_[{device, kind}] = timeline_.blocks.size() - 1;
}

bool TimelineRecorder::end(std::size_t step, Block::Kind kind, const DeviceKey& device) {
  const auto state = states_.extract({device, kind});
  if (state.empty())
    return false;
  timeline_.blocks[state.mapped()].to = step;
  return true;
}

void TimelineRecorder::on_added(const Ledger& ledger, std::size_t step, const std::string& node) {
  const auto view = ledger.node(node);
  for (const auto& device : view->devices) {
    const DeviceKey key{node, device.index};
    if (timeline_.devices.size() == most_devices && timeline_.devices.count(key) == 0) {
      timeline_.devices_left_out.insert(key);
      continue;
    }
    timeline_.devices.emplace(key, device.spec.accelerator_type);
    const bool is_new = lanes_.insert_or_assign(key, Lane{{Segment{0, Share::one}}}).second;
    if (!end(step, Block::Kind::absent, key) && is_new && step > 0)
      add({Block::Kind::absent, key, {0, Share::one}, 0, step, 0, 0, "", "not there yet"});
  }
}

void TimelineRecorder::on_node(const Ledger& ledger, std::size_t step, NodeChange change, const std::string& node,
                               int index) {
  if (change == NodeChange::added)
    return on_added(ledger, step, node);
  for (auto it = lanes_.lower_bound({node, 0}); it != lanes_.end() && it->first.first == node; ++it) {
    const auto& device = it->first;
    // A node may come back with fewer devices than it had.
    if ((index >= 0 && device.second != index) || states_.count({device, Block::Kind::absent}) != 0)
      continue;
    if (change == NodeChange::device_failed)
      begin(step, Block::Kind::failed, device, "failed");
    else if (change == NodeChange::drained)
      begin(step, Block::Kind::draining, device, "draining");
    else
      end(step, Block::Kind::draining, device);
    if (change == NodeChange::removed) {
      end(step, Block::Kind::failed, device);
      begin(step, Block::Kind::absent, device, "removed");
    }
  }
}

Lane& TimelineRecorder::lane_of(const Holder& holder, const DeviceKey& device) {
  if (const auto it = holders_.find(holder); it != holders_.end())
    if (const auto part = it->second.find(device); part != it->second.end())
      return part->second.inside;
  return lanes_.at(device);
}

void TimelineRecorder::open(std::size_t step, const Holder& holder, const Holder& source, const std::string& node,
                            const std::vector<DeviceGrant>& devices, const std::string& name) {
  for (const auto& grant : devices) {
    const DeviceKey key{node, grant.index};
    if (lanes_.count(key) == 0)
      continue;
    const auto from = holders_.find(source);
    const bool inside = from != holders_.end() && from->second.count(key) > 0;
    Part part{inside ? source : Holder{}, lane_of(source, key).take(grant.share.units()), {}, {}, 0};
    part.inside = Lane{part.segments};
    part.depth = inside ? from->second.at(key).depth + 1 : 0;
    const auto details = fmt::format("{} of device {} of node {}, {}", to_string(grant.share), grant.index, node,
                                     format_bytes(grant.memory_bytes));
    for (const auto& segment : part.segments)
      if (add({holder.group > 0 ? Block::Kind::bundle : Block::Kind::lease, key, segment, step, Block::open,
               holder.lease, part.depth, name, details}))
        part.blocks.push_back(timeline_.blocks.size() - 1);
    holders_[holder].emplace(key, std::move(part));
  }
}

// Closes a holder. Parts of it that others have stay with them, and go back to this holder's own source in the end.
void TimelineRecorder::close(std::size_t step, const Holder& holder) {
  auto node = holders_.extract(holder);
  if (node.empty())
    return;
  for (auto& [device, part] : node.mapped()) {
    for (const auto block : part.blocks)
      timeline_.blocks[block].to = step;
    lane_of(part.source, device).give_back(part.inside.free());
    if (part.inside.free() == part.segments)
      continue;
    for (auto& [other, parts] : holders_)
      if (const auto it = parts.find(device); it != parts.end() && it->second.source == holder)
        it->second.source = part.source;
  }
}

// Updates the bundles of a group, which keeps the others when it loses one: closes bundles that it no longer has, and
// opens new ones.
void TimelineRecorder::follow_group(const Ledger& ledger, std::size_t step, const Event& event, const std::string& id) {
  const auto group = event.group.value();
  const auto held = ledger.bundles_of(event.group);
  const auto still_held = [&](int number, const std::map<DeviceKey, Part>& parts) {
    const auto bundle = std::find_if(held.begin(), held.end(), [&](const auto& one) { return one.bundle == number; });
    return bundle != held.end() && bundle->devices.size() == parts.size()
           && std::all_of(bundle->devices.begin(), bundle->devices.end(), [&](const auto& device) {
                return parts.count({bundle->node, device.index}) > 0;
              });
  };
  for (auto it = holders_.lower_bound({0, group, 0});
       it != holders_.end() && it->first.lease == 0 && it->first.group == group;) {
    const auto& [holder, parts] = *it++;
    if (!still_held(holder.bundle, parts))
      close(step, Holder{holder});
  }
  if (event.kind == Event::Kind::granted)
    for (const auto& bundle : event.bundles)
      if (const Holder holder{0, group, bundle.bundle}; holders_.count(holder) == 0)
        open(step, holder, {}, bundle.node, bundle.devices, id);
}

void TimelineRecorder::on_event(const Ledger& ledger, std::size_t step, const Event& event, const std::string& id) {
  const bool ends = event.kind == Event::Kind::released || event.kind == Event::Kind::lost;
  if (event.group) {
    follow_group(ledger, step, event, id);
  } else if (event.lease) {
    const auto& lease = *event.lease;
    const auto source = lease.parent  ? Holder{lease.parent.value(), 0, 0}
                        : lease.group ? Holder{0, lease.group.value(), lease.bundle}
                                      : Holder{};
    if (event.kind == Event::Kind::granted)
      open(step, {lease.id.value(), 0, 0}, source, lease.node, lease.devices, id);
    else if (ends)
      close(step, {lease.id.value(), 0, 0});
  }
}

void TimelineRecorder::after_step(const Ledger& ledger, std::size_t step, TimePoint now) {
  if (timeline_.stopped_at != Block::open)
    return;
  timeline_.steps = step + 1;
  const auto waiting = ledger.pending_count();
  if (waiting != (timeline_.waiting.empty() ? 0 : timeline_.waiting.back().second)
      && timeline_.waiting.size() < most_blocks)
    timeline_.waiting.emplace_back(step, waiting);
  const auto seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  if (seconds > (timeline_.times.empty() ? 0.0 : timeline_.times.back().second) && timeline_.times.size() < most_blocks)
    timeline_.times.emplace_back(step, seconds);
}

void TimelineRecorder::on_end(const Ledger&, const Names&) {
  draw_svg(out_, timeline_);
}

} // namespace gpuactors::plan_detail
