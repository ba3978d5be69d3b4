#include <property/model.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

namespace model {

namespace {

constexpr std::int64_t whole = 10'000;

// (share, bytes) of a device of `memory` bytes; computed here in 128 bits and not by the library.
std::pair<std::int64_t, std::uint64_t> need(const ResourceRequest& r, std::uint64_t memory) {
  __extension__ using Wide = unsigned __int128;
  if (r.gpus.units() >= whole)
    return {whole, r.memory_bytes > 0 ? r.memory_bytes : memory};
  if (r.gpus.units() == 0) {
    if (r.memory_bytes > memory)
      return {whole + 1, r.memory_bytes};
    std::int64_t share = 0;
    // The least share whose memory covers what is wanted, found the slow way.
    auto low = std::int64_t{1};
    auto high = whole;
    while (low <= high) {
      const auto middle = (low + high) / 2;
      if (Wide{memory} * static_cast<Wide>(middle) >= Wide{r.memory_bytes} * static_cast<Wide>(whole)) {
        share = middle;
        high = middle - 1;
      } else {
        low = middle + 1;
      }
    }
    return {share, r.memory_bytes};
  }
  if (r.memory_bytes > 0)
    return {r.gpus.units(), r.memory_bytes};
  return {r.gpus.units(), static_cast<std::uint64_t>(Wide{memory} * static_cast<Wide>(r.gpus.units()) / whole)};
}

bool wants_device(const ResourceRequest& r) {
  return r.gpus.units() > 0 || r.memory_bytes > 0;
}

std::size_t how_many(const ResourceRequest& r) {
  return r.gpus.units() >= whole ? static_cast<std::size_t>(r.gpus.units() / whole) : 1;
}

const DeviceGrant* device_in(const Amounts& amounts, int index) {
  for (const auto& device : amounts.devices)
    if (device.index == index)
      return &device;
  return nullptr;
}

Share resource_in(const Amounts& amounts, const std::string& name) {
  const auto it = amounts.resources.find(name);
  return it == amounts.resources.end() ? Share{} : it->second;
}

using Candidate = std::tuple<std::uint64_t, std::string, int>;

int distance(const NodeSpec& node, int a, int b) {
  const auto i = static_cast<std::size_t>(a);
  const auto j = static_cast<std::size_t>(b);
  if (!node.distances.empty())
    return node.distances[i][j];
  const bool any =
      std::any_of(node.devices.begin(), node.devices.end(), [](const auto& d) { return d.numa_node >= 0; });
  if (!any)
    return 0;
  return node.devices[i].numa_node >= 0 && node.devices[i].numa_node == node.devices[j].numa_node ? 1 : 2;
}

// Every choice, as a mask that is counted down, so that the first candidates come first; the best sum of distances.
std::vector<std::size_t> closest(const NodeSpec& node, const std::vector<Candidate>& of, std::size_t count) {
  std::vector<std::size_t> best;
  std::optional<int> least;
  for (auto mask = std::size_t{1} << of.size(); mask-- > 0;) {
    std::vector<std::size_t> set;
    for (std::size_t i = 0; i < of.size(); ++i)
      if ((mask & (std::size_t{1} << (of.size() - 1 - i))) != 0)
        set.push_back(i);
    if (set.size() != count)
      continue;
    int sum = 0;
    for (const auto a : set)
      for (const auto b : set)
        sum += a < b ? distance(node, std::get<2>(of[a]), std::get<2>(of[b])) : 0;
    if (least && sum >= *least)
      continue;
    least = sum;
    best = set;
  }
  return best;
}

void subtract(Amounts& from, const Amounts& what) {
  for (auto& device : from.devices)
    if (const auto* taken = device_in(what, device.index)) {
      device.share = std::max(Share{}, device.share - taken->share);
      device.memory_bytes -= std::min(device.memory_bytes, taken->memory_bytes);
    }
  from.cpus = std::max(Share{}, from.cpus - what.cpus);
  for (auto& [name, amount] : from.resources)
    amount = std::max(Share{}, amount - resource_in(what, name));
}

} // namespace

std::string place_text(const std::string& node, const std::vector<DeviceGrant>& devices) {
  std::string text = node;
  for (const auto& device : devices)
    text += " " + std::to_string(device.index) + ":" + std::to_string(device.share.units()) + "/"
            + std::to_string(device.memory_bytes);
  return text;
}

std::string type_name(gpuactors::TypeId type) {
  return "t" + std::to_string(type.value());
}

bool is_right_node(const Model::Node& node, const ResourceRequest& r) {
  if (!r.node.empty() && !r.node_is_soft && r.node != node.spec.name)
    return false;
  if (const auto& types = node.spec.types;
      r.type && types && std::count(types->begin(), types->end(), type_name(r.type)) == 0)
    return false;
  for (const auto& [name, wanted] : r.labels) {
    const auto it = node.spec.labels.find(name);
    const bool there = it != node.spec.labels.end();
    const bool listed = there && std::count(wanted.values.begin(), wanted.values.end(), it->second) > 0;
    using Op = gpuactors::LabelCondition::Op;
    if ((wanted.op == Op::in && !listed) || (wanted.op == Op::not_in && listed) || (wanted.op == Op::exists && !there)
        || (wanted.op == Op::absent && there))
      return false;
  }
  return true;
}

// -- amounts ---------------------------------------------------------------------------------------

Amounts Model::all_of(const Source& source) const {
  Amounts all;
  if (source.lease != 0)
    return held_.at(source.lease).amounts;
  if (source.group != 0) {
    const auto& bundle = groups_.at(source.group).bundles.at(source.bundle);
    return {bundle.devices, bundle.cpus, bundle.resources};
  }
  const auto& node = nodes_.at(source.node);
  for (std::size_t i = 0; i < node.spec.devices.size(); ++i)
    if (node.failed.count(static_cast<int>(i)) == 0)
      all.devices.push_back({static_cast<int>(i), Share::whole(1), node.spec.devices[i].memory_bytes});
  all.cpus = node.spec.cpus;
  all.resources = node.spec.resources;
  return all;
}

const Model::Node& Model::node_of(const Source& source) const {
  return nodes_.at(source.node);
}

Amounts Model::left_of(const Source& source, bool all, const std::vector<Taken>& taken) const {
  auto left = all_of(source);
  if (!all) {
    for (const auto& [id, held] : held_)
      if (held.source == source)
        subtract(left, held.amounts);
    for (const auto& [id, rest] : remains_)
      if (rest.source == source && rest.lender == 0)
        subtract(left, rest.amounts);
    if (source.group == 0 && source.lease == 0)
      for (const auto& [id, group] : groups_)
        for (const auto& [number, bundle] : group.bundles)
          if (bundle.node == source.node)
            subtract(left, {bundle.devices, bundle.cpus, bundle.resources});
  }
  // Together first, because the rest cannot be less than nothing.
  for (const auto& item : taken)
    if (item.source == source)
      subtract(left, item.amounts);
  return left;
}

DeviceGrant Model::free_of(const std::string& node, int index) const {
  const auto left = left_of({node, 0, 0, 0}, false, {});
  const auto* device = device_in(left, index);
  return device == nullptr ? DeviceGrant{index, Share{}, 0} : *device;
}

// -- one source ------------------------------------------------------------------------------------

std::optional<std::vector<DeviceGrant>> Model::choose(const Source& source, const ResourceRequest& r, bool all,
                                                      const std::vector<Taken>& taken, std::int64_t most) const {
  const auto& node = node_of(source);
  if (!is_right_node(node, r))
    return std::nullopt;
  const auto left = left_of(source, all, taken);
  if (r.cpus > left.cpus)
    return std::nullopt;
  for (const auto& [name, amount] : r.resources)
    if (resource_in(left, name) < amount)
      return std::nullopt;
  const auto type_of = [&](int index) {
    return node.spec.devices.at(static_cast<std::size_t>(index)).accelerator_type;
  };
  if (!wants_device(r)) {
    if (r.accelerator_type.empty())
      return std::vector<DeviceGrant>{};
    for (int i = 0; i < static_cast<int>(node.spec.devices.size()); ++i)
      if (node.failed.count(i) == 0 && type_of(i) == r.accelerator_type)
        return std::vector<DeviceGrant>{};
    return std::nullopt;
  }
  if (r.gpus.units() >= whole)
    return choose_whole(source, r, left);
  const auto shown = left_of(source, all, {});
  using Rank = std::tuple<bool, std::int64_t, std::int64_t, int>;
  std::optional<std::pair<Rank, DeviceGrant>> best;
  for (const auto& device : left.devices) {
    const auto [share, bytes] = need(r, node.spec.devices.at(static_cast<std::size_t>(device.index)).memory_bytes);
    if ((!r.accelerator_type.empty() && type_of(device.index) != r.accelerator_type) || device.share.units() < share
        || device.memory_bytes < bytes || share > most)
      continue;
    const auto& now = *device_in(shown, device.index);
    const auto now_share = now.share.units();
    const auto now_bytes = static_cast<std::int64_t>(now.memory_bytes);
    const auto rank =
        r.strategy == gpuactors::Strategy::spread
            ? Rank{false, -now_share, -now_bytes, device.index}
            : Rank{now_share == whole, now_share - share, now_bytes - static_cast<std::int64_t>(bytes), device.index};
    if (!best || rank < best->first)
      best = {rank, DeviceGrant{device.index, Share{share}, bytes}};
  }
  if (!best)
    return std::nullopt;
  return std::vector<DeviceGrant>{best->second};
}

std::optional<std::vector<DeviceGrant>> Model::choose_whole(const Source& source, const ResourceRequest& r,
                                                            const Amounts& left) const {
  const auto& node = node_of(source);
  // (memory, type, index) of all that would do, in order of preference.
  std::vector<std::tuple<std::uint64_t, std::string, int>> fitting;
  for (const auto& device : left.devices) {
    const auto& spec = node.spec.devices.at(static_cast<std::size_t>(device.index));
    const auto [share, bytes] = need(r, spec.memory_bytes);
    if ((r.accelerator_type.empty() || spec.accelerator_type == r.accelerator_type) && device.share.units() >= share
        && device.memory_bytes >= bytes)
      fitting.emplace_back(spec.memory_bytes, spec.accelerator_type, device.index);
  }
  std::sort(fitting.begin(), fitting.end());
  auto chosen = fitting;
  std::size_t fewest = 0;
  for (const auto& one : fitting) {
    decltype(fitting) same;
    for (const auto& other : fitting)
      if (std::get<0>(one) == std::get<0>(other) && std::get<1>(one) == std::get<1>(other))
        same.push_back(other);
    if (same.size() >= how_many(r) && (fewest == 0 || same.size() < fewest)) {
      fewest = same.size();
      chosen = same;
    }
  }
  if (chosen.size() < how_many(r))
    return std::nullopt;
  std::vector<DeviceGrant> grants;
  for (const auto i : closest(node.spec, chosen, how_many(r)))
    grants.push_back({std::get<2>(chosen[i]), Share::whole(1), need(r, std::get<0>(chosen[i])).second});
  std::sort(grants.begin(), grants.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  return grants;
}

// -- all nodes -------------------------------------------------------------------------------------

std::optional<Taken> Model::choose_node(const ResourceRequest& r, const std::vector<Taken>& taken,
                                        std::int64_t most) const {
  // Whatever the preference is about, less is better; then the name.
  using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::string, int, std::string>;
  std::optional<std::pair<Rank, Taken>> best;
  const auto offer = [&](const Rank& rank, const std::string& name, std::vector<DeviceGrant> devices) {
    if (!best || rank < best->first)
      best = {rank, Taken{{name, 0, 0, 0}, {std::move(devices), r.cpus, r.resources}}};
  };
  for (const auto& [name, node] : nodes_) {
    const Source source{name, 0, 0, 0};
    const auto in_node = node.draining ? std::nullopt : choose(source, r, false, taken, most);
    if (!in_node)
      continue;
    const auto shown = left_of(source, false, {});
    std::int64_t free_share = 0;
    std::map<std::pair<std::uint64_t, std::string>, std::int64_t> idle;
    for (const auto& device : shown.devices) {
      const auto& spec = node.spec.devices.at(static_cast<std::size_t>(device.index));
      free_share += device.share.units();
      if (device.share == Share::whole(1))
        ++idle[{spec.memory_bytes, spec.accelerator_type}];
    }
    // A wish that can be granted comes before all others.
    if (r.node == name) {
      offer({std::numeric_limits<std::int64_t>::min(), 0, 0, 0, {}, 0, {}}, name, *in_node);
    } else if (r.strategy == gpuactors::Strategy::spread) {
      offer({-free_share, -shown.cpus.units(), 0, 0, name, 0, {}}, name, *in_node);
    } else if (!wants_device(r)) {
      offer({node.spec.devices.empty() ? 0 : 1, shown.cpus.units(), 0, 0, name, 0, {}}, name, *in_node);
    } else if (r.gpus.units() < whole) {
      for (const auto& device : left_of(source, false, taken).devices) {
        const auto& spec = node.spec.devices.at(static_cast<std::size_t>(device.index));
        const auto [share, bytes] = need(r, spec.memory_bytes);
        if (device.share.units() < share || device.memory_bytes < bytes || share > most
            || (!r.accelerator_type.empty() && spec.accelerator_type != r.accelerator_type))
          continue;
        const auto& now = *device_in(shown, device.index);
        const bool is_idle = now.share == Share::whole(1);
        offer({is_idle ? 1 : 0,
               now.share.units() - share,
               static_cast<std::int64_t>(now.memory_bytes) - static_cast<std::int64_t>(bytes),
               is_idle ? idle.at({spec.memory_bytes, spec.accelerator_type}) : 0,
               name,
               device.index,
               {}},
              name, {DeviceGrant{device.index, Share{share}, bytes}});
      }
    } else {
      std::int64_t matching = 0;
      for (const auto& [kind, count] : idle) {
        if (!r.accelerator_type.empty() && kind.second != r.accelerator_type)
          continue;
        matching += count;
        // As if the node had devices of this kind only.
        auto only = left_of(source, false, taken);
        std::vector<DeviceGrant> of_kind;
        for (const auto& device : only.devices) {
          const auto& spec = node.spec.devices.at(static_cast<std::size_t>(device.index));
          if (spec.memory_bytes == kind.first && spec.accelerator_type == kind.second)
            of_kind.push_back(device);
        }
        only.devices = of_kind;
        if (const auto devices = choose_whole(source, r, only))
          offer({0, count, static_cast<std::int64_t>(kind.first), 0, name, 0, kind.second}, name, *devices);
      }
      if (idle.size() > 0)
        offer({1, matching, 0, 0, name, 0, {}}, name, *in_node);
    }
  }
  if (!best)
    return std::nullopt;
  return best->second;
}

std::optional<Taken> Model::find_place(const Waiting& waiting, std::uint64_t& lender) const {
  const auto& r = waiting.request;
  const auto taken = held_back(waiting);
  lender = 0;
  if (r.group) {
    const auto& bundles = groups_.at(r.group.value()).bundles;
    for (const auto& [number, bundle] : bundles) {
      const Source source{bundle.node, r.group.value(), bundle.bundle, 0};
      if (draws_from(r, bundle.bundle))
        if (const auto devices = choose(source, r, false, taken))
          return Taken{source, {*devices, r.cpus, r.resources}};
    }
  } else if (const auto room = room_of(r.owner); least_of(r) <= room) {
    if (auto place = choose_node(r, taken, room))
      return place;
  }
  for (const auto id : ancestors(r.parent.value())) {
    const Source source{held_.at(id).source.node, 0, 0, id};
    if (const auto devices = choose(source, r, false, taken)) {
      lender = id;
      return Taken{source, {*devices, r.cpus, r.resources}};
    }
  }
  return std::nullopt;
}

// Drained nodes count, unless they are left out: they may take leases again.
// Of memory alone, on the device where it is the least share.
std::int64_t Model::least_of(const ResourceRequest& r) const {
  if (r.group)
    return 0;
  if (r.gpus.units() > 0 || r.memory_bytes == 0)
    return r.gpus.units();
  std::int64_t least = whole + 1;
  for (const auto& [name, node] : nodes_)
    for (int i = 0; i < static_cast<int>(node.spec.devices.size()); ++i) {
      const auto& spec = node.spec.devices.at(static_cast<std::size_t>(i));
      if (is_right_node(node, r) && node.failed.count(i) == 0
          && (r.accelerator_type.empty() || spec.accelerator_type == r.accelerator_type))
        least = std::min(least, need(r, spec.memory_bytes).first);
    }
  return least > whole ? 1 : least;
}

bool Model::is_feasible(const Waiting& waiting, bool drained_too) const {
  const auto& r = waiting.request;
  const auto limit = most_for(r);
  if (waiting.group != 0)
    return least_of(waiting) <= limit_of(owner_of(waiting)) && group_fits(groups_.at(waiting.group), true, drained_too);
  const auto taken = held_by_ancestors(r.parent.value());
  if (r.group) {
    const auto& bundles = groups_.at(r.group.value()).bundles;
    if (lacks(r))
      return true;
    for (const auto& [number, bundle] : bundles)
      if (draws_from(r, bundle.bundle) && choose({bundle.node, r.group.value(), bundle.bundle, 0}, r, true, taken))
        return true;
  } else {
    for (const auto& [name, node] : nodes_)
      if (least_of(r) <= limit && (drained_too || !node.draining) && choose({name, 0, 0, 0}, r, true, taken, limit))
        return true;
  }
  for (const auto id : ancestors(r.parent.value()))
    if (choose({held_.at(id).source.node, 0, 0, id}, r, true, taken))
      return true;
  return false;
}

bool Model::waits_for_drained(std::uint64_t id, std::uint64_t group) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const Waiting& w) {
    return w.id == id && w.group == group && is_feasible(w) && !is_feasible(w, false);
  });
}

// -- groups ----------------------------------------------------------------------------------------

bool Model::lacks(const ResourceRequest& in_group) const {
  const auto& group = groups_.at(in_group.group.value());
  for (int number = 0; number < static_cast<int>(group.request.bundles.size()); ++number)
    if (draws_from(in_group, number) && group.bundles.count(number) == 0 && group.gone.count(number) == 0)
      return true;
  return false;
}

// Bundles that have a place keep it.
bool Model::group_fits(const Group& group, bool all, bool drained_too, std::vector<Taken> taken) const {
  std::vector<std::string> nodes;
  for (const auto& [number, bundle] : group.bundles) {
    nodes.push_back(bundle.node);
    // What is free is less by them already.
    if (all)
      taken.push_back({{bundle.node, 0, 0, 0}, {bundle.devices, bundle.cpus, bundle.resources}});
  }
  return group_fits_from(group, all, drained_too, 0, taken, nodes);
}

// Every bundle on every device of every node, until it fits.
bool Model::group_fits_from(const Group& group, bool all, bool drained_too, int bundle, std::vector<Taken>& taken,
                            std::vector<std::string>& nodes) const {
  if (bundle == static_cast<int>(group.request.bundles.size()))
    return true;
  if (group.bundles.count(bundle) > 0)
    return group_fits_from(group, all, drained_too, bundle + 1, taken, nodes);
  const auto& r = group.request.bundles[static_cast<std::size_t>(bundle)];
  const auto strategy = group.request.strategy;
  for (const auto& [name, node] : nodes_) {
    const bool used = std::find(nodes.begin(), nodes.end(), name) != nodes.end();
    if ((node.draining && !drained_too) || (strategy == gpuactors::GroupStrategy::strict_spread && used)
        || (strategy == gpuactors::GroupStrategy::strict_pack && !nodes.empty() && !used))
      continue;
    const Source source{name, 0, 0, 0};
    const auto left = left_of(source, all, taken);
    std::vector<std::vector<DeviceGrant>> options;
    const auto fits = choose(source, r, all, taken);
    if (fits && !wants_device(r))
      options.push_back(*fits);
    else if (fits)
      options = {{}};
    // Every set of as many devices as are wanted.
    for (std::size_t chosen = 0; fits && wants_device(r) && chosen < how_many(r); ++chosen) {
      std::vector<std::vector<DeviceGrant>> larger;
      for (const auto& option : options)
        for (const auto& device : left.devices) {
          const auto& spec = node.spec.devices.at(static_cast<std::size_t>(device.index));
          const auto [share, bytes] = need(r, spec.memory_bytes);
          if (device.share.units() < share || device.memory_bytes < bytes
              || (!r.accelerator_type.empty() && spec.accelerator_type != r.accelerator_type)
              || (!option.empty() && option.back().index >= device.index))
            continue;
          larger.push_back(option);
          larger.back().push_back({device.index, Share{share}, bytes});
        }
      options = larger;
    }
    for (const auto& devices : options) {
      taken.push_back({source, {devices, r.cpus, r.resources}});
      nodes.push_back(name);
      if (group_fits_from(group, all, drained_too, bundle + 1, taken, nodes))
        return true;
      taken.pop_back();
      nodes.pop_back();
    }
  }
  return false;
}

// Takes the places that the ledger chose, if they are right.
bool Model::adopt_group(std::uint64_t id, const std::vector<Event>& events, Outcomes& out) {
  auto& group = groups_.at(id);
  Waiting asked;
  asked.group = id;
  asked.age = group.age;
  asked.priority = group.request.priority;
  const auto for_others = held_back(asked);
  if (least_of(asked) > room_of(group.request.owner) || !group_fits(group, false, false, for_others))
    return false;
  charged_ = charged_ || !group.request.owner.empty();
  const auto it = std::find_if(events.begin(), events.end(), [&](const Event& event) {
    return event.kind == Event::Kind::granted && event.group.value() == id && !event.lease;
  });
  group.placed = true;
  // Left out on purpose when the ledger did not grant it: the outcomes will differ.
  out.push_back({Event::Kind::granted, 0, id, {}});
  if (it == events.end() || it->bundles.size() != group.request.bundles.size()) {
    complaint_ = "group " + std::to_string(id) + " fits but was not granted";
    return true;
  }
  std::set<std::string> nodes;
  const auto kept = group.bundles;
  for (std::size_t i = 0; i < it->bundles.size(); ++i) {
    const auto& bundle = it->bundles[i];
    const auto& r = group.request.bundles[i];
    nodes.insert(bundle.node);
    if (const auto at = kept.find(static_cast<int>(i)); at != kept.end()) {
      if (!(at->second == bundle))
        complaint_ = "a bundle that had a place was moved";
      continue;
    }
    const auto left = nodes_.count(bundle.node) > 0 && !nodes_.at(bundle.node).draining
                          ? left_of({bundle.node, 0, 0, 0}, false, for_others)
                          : Amounts{};
    const auto wrong = [&](const char* what) {
      complaint_ = "bundle " + std::to_string(i) + " of group " + std::to_string(id) + ": " + what;
    };
    if (bundle.cpus != r.cpus || r.cpus > left.cpus || bundle.resources != r.resources)
      wrong("cpus or resources");
    if (bundle.devices.size() != (wants_device(r) ? how_many(r) : 0))
      wrong("number of devices");
    for (const auto& device : bundle.devices) {
      const auto& spec = nodes_.at(bundle.node).spec.devices.at(static_cast<std::size_t>(device.index));
      const auto [share, bytes] = need(r, spec.memory_bytes);
      const auto* free = device_in(left, device.index);
      if (free == nullptr || free->share < device.share || free->memory_bytes < device.memory_bytes)
        wrong("a device has not that much");
      if (device.share.units() != share || device.memory_bytes != bytes)
        wrong("not what was asked");
      if (!r.accelerator_type.empty() && spec.accelerator_type != r.accelerator_type)
        wrong("type");
    }
    if (bundle.bundle != static_cast<int>(i) || nodes_.count(bundle.node) == 0
        || !is_right_node(nodes_.at(bundle.node), r))
      wrong("node");
    group.bundles[static_cast<int>(i)] = bundle;
  }
  const auto strategy = group.request.strategy;
  if (strategy == gpuactors::GroupStrategy::strict_pack && nodes.size() > 1)
    complaint_ = "strict_pack on several nodes";
  if (strategy == gpuactors::GroupStrategy::strict_spread && nodes.size() < it->bundles.size())
    complaint_ = "strict_spread with two bundles on one node";
  for (const auto& [number, bundle] : group.bundles)
    if (kept.count(number) == 0)
      count_pass(asked, {bundle.node, 0, 0, 0}, bundle.devices);
  return true;
}

// -- ancestors -------------------------------------------------------------------------------------

std::vector<std::uint64_t> Model::ancestors(std::uint64_t parent) const {
  std::vector<std::uint64_t> result;
  while (parent != 0 && held_.count(parent) > 0 && !held_.at(parent).ended) {
    result.push_back(parent);
    parent = held_.at(parent).asked_by;
  }
  return result;
}

std::vector<Taken> Model::held_by_ancestors(std::uint64_t parent) const {
  std::set<std::uint64_t> leases;
  std::set<std::uint64_t> groups;
  for (auto id : ancestors(parent))
    for (; id != 0; id = held_.at(id).lender) {
      leases.insert(id);
      groups.insert(held_.at(id).source.group);
    }
  groups.erase(0);
  std::vector<Taken> taken;
  for (const auto id : leases)
    taken.push_back({held_.at(id).source, held_.at(id).amounts});
  for (const auto id : groups)
    for (const auto& [number, bundle] : groups_.at(id).bundles)
      taken.push_back({{bundle.node, 0, 0, 0}, {bundle.devices, bundle.cpus, bundle.resources}});
  return taken;
}

} // namespace model
