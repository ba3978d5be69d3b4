// The rules for requests, groups, nodes and quotas that need no knowledge of the cluster.
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/request.hpp>
#include <gpuactors/ledger/view.hpp>

#include <fmt/format.h>

#include <limits>

namespace gpuactors {

namespace {

// Largest amount: far above any cluster, far below the overflow of 64-bit sums.
constexpr Share max_amount = Share::whole(1'000'000'000);
constexpr auto max_bytes = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Result<void> check_name(std::string_view what, std::string_view name, std::size_t most = limits::name_length) {
  if (name.size() > most)
    return fail(Errc::invalid_argument,
                fmt::format("{} has {} characters: at most {} are allowed", what, name.size(), most));
  // Control characters are those of ASCII and U+0080 to U+009F, which begin with the byte 0xc2 in UTF-8: terminals
  // interpret both.
  const auto byte = [&](std::size_t i) { return i < name.size() ? static_cast<unsigned char>(name[i]) : 0xffU; };
  for (std::size_t i = 0; i < name.size(); ++i)
    if (byte(i) < 0x20 || byte(i) == 0x7f || (byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0))
      return fail(Errc::invalid_argument, fmt::format("{} has a control character: use printable ones", what));
  return {};
}

Result<void> check_amount(std::string_view what, Share amount) {
  if (amount < Share{})
    return fail(Errc::invalid_argument, fmt::format("{} is {}: it cannot be negative", what, to_string(amount)));
  if (amount > max_amount)
    return fail(Errc::invalid_argument,
                fmt::format("{} is {}: at most {} is allowed", what, to_string(amount), to_string(max_amount)));
  return {};
}

Result<void> check_bytes(std::string_view what, std::uint64_t bytes) {
  if (bytes > max_bytes)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: at most {} is allowed", what, bytes, max_bytes));
  return {};
}

Result<void> check_count(std::string_view what, std::size_t count, std::size_t most) {
  if (count > most)
    return fail(Errc::invalid_argument, fmt::format("{} {} are named: at most {} are allowed", count, what, most));
  return {};
}

Result<void> check_label_name(const std::string& key) {
  if (key.empty())
    return fail(Errc::invalid_argument, "a label has an empty name: give it one");
  return check_name("the name of a label", key);
}

Result<void> check_labels(const std::map<std::string, std::string>& labels) {
  for (const auto& [key, value] : labels) {
    GPUACTORS_TRY(check_label_name(key));
    GPUACTORS_TRY(check_name(fmt::format("label {}", key), value));
  }
  return {};
}

Result<void> check_condition(const std::string& key, const LabelCondition& condition) {
  GPUACTORS_TRY(check_label_name(key));
  const bool lists = condition.op == LabelCondition::Op::in || condition.op == LabelCondition::Op::not_in;
  if (lists == condition.values.empty())
    return fail(Errc::invalid_argument,
                lists ? fmt::format("label {}: name at least one value", key)
                      : fmt::format("label {}: whether it is there is asked, so no value can be named", key));
  if (condition.values.size() > limits::values_per_label)
    return fail(Errc::invalid_argument, fmt::format("label {} has {} values: at most {} are allowed", key,
                                                    condition.values.size(), limits::values_per_label));
  for (const auto& value : condition.values)
    GPUACTORS_TRY(check_name(fmt::format("label {}", key), value));
  return {};
}

// Checks names and amounts, and refuses names that have a field of their own.
Result<void> check_resources(const std::map<std::string, Share>& resources) {
  for (const auto& [name, amount] : resources) {
    if (name.empty())
      return fail(Errc::invalid_argument, "a resource has an empty name: give it one");
    GPUACTORS_TRY(check_name("the name of a resource", name));
    for (const auto& [reserved, field] : {std::pair{"gpu", "gpus"},
                                          {"gpus", "gpus"},
                                          {"cpu", "cpus"},
                                          {"cpus", "cpus"},
                                          {"memory", "memory_bytes"},
                                          {"memory_bytes", "memory_bytes"},
                                          {"host_memory_bytes", "host_memory_bytes"}})
      if (name == reserved)
        return fail(Errc::invalid_argument,
                    fmt::format("\"{}\" is not a custom resource: use the field {} instead", name, field));
    if (name == host_memory_resource && amount > Share{})
      GPUACTORS_TRY(check_host_memory("host_memory_bytes", static_cast<std::uint64_t>(amount.units())));
    else
      GPUACTORS_TRY(check_amount(fmt::format("resource {}", name), amount));
  }
  return {};
}

Result<void> check_gpus(Share gpus) {
  GPUACTORS_TRY(check_amount("gpus", gpus));
  if (gpus > Share::whole(1) && !gpus.is_whole())
    return fail(Errc::invalid_argument,
                fmt::format("gpus is {}: ask for a fraction below 1 or for a whole number of devices ({} or {})",
                            to_string(gpus), gpus.units() / Share::one, gpus.units() / Share::one + 1));
  return {};
}

Result<void> check_timeout(const std::optional<Duration>& timeout) {
  if (timeout && *timeout < Duration::zero())
    return fail(Errc::invalid_argument, "queue_timeout is negative: leave it out to wait without a limit");
  return {};
}

Result<void> check_distances(const NodeSpec& node) {
  const auto& rows = node.distances;
  if (rows.empty())
    return {};
  const auto wrong = [&](const std::string& text) {
    return fail(Errc::invalid_argument, fmt::format("node {}: distances{}", node.name, text));
  };
  const auto count = node.devices.size();
  if (rows.size() != count)
    return wrong(fmt::format(" has {} rows for {} devices: one for each is needed", rows.size(), count));
  for (std::size_t a = 0; a < count; ++a)
    if (rows[a].size() != count)
      return wrong(fmt::format("[{}] has {} numbers for {} devices: one for each is needed", a, rows[a].size(), count));
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b) {
      if (rows[a][b] < 0 || rows[a][b] > limits::distance)
        return wrong(fmt::format("[{}][{}] is {}: 0 to {} is allowed", a, b, rows[a][b], limits::distance));
      if (a == b && rows[a][b] != 0)
        return wrong(fmt::format("[{}][{}] is {}: a device is 0 from itself", a, b, rows[a][b]));
      if (rows[a][b] != rows[b][a])
        return wrong(fmt::format("[{}][{}] is {} and [{}][{}] is {}: both ways must be equal", a, b, rows[a][b], b, a,
                                 rows[b][a]));
    }
  return {};
}

Result<void> check_priority(int priority) {
  if (priority < -limits::priority || priority > limits::priority)
    return fail(Errc::invalid_argument,
                fmt::format("priority is {}: {} to {} is allowed", priority, -limits::priority, limits::priority));
  return {};
}

} // namespace

Result<void> check_types(std::string_view node, const std::optional<std::vector<std::string>>& types) {
  if (!types)
    return {};
  if (types->size() > limits::types_per_node)
    return fail(Errc::invalid_argument, fmt::format("node {} has {} types: at most {} are allowed", node, types->size(),
                                                    limits::types_per_node));
  for (const auto& type : *types) {
    if (type.empty())
      return fail(Errc::invalid_argument, fmt::format("node {} has a type with an empty name: give it one", node));
    // The broker adds to the names of types what they are types of.
    GPUACTORS_TRY(check_name("the name of a type", type, 2 * limits::name_length));
  }
  return {};
}

Result<void> validate(const ResourceRequest& request) {
  GPUACTORS_TRY(check_name("name", request.name));
  GPUACTORS_TRY(check_gpus(request.gpus));
  GPUACTORS_TRY(check_bytes("memory_bytes", request.memory_bytes));
  GPUACTORS_TRY(check_amount("cpus", request.cpus));
  GPUACTORS_TRY(check_name("accelerator_type", request.accelerator_type));
  // Each is looked at for each node, as often as there is a place for something.
  GPUACTORS_TRY(check_count("resources", request.resources.size(), limits::resources_per_request));
  GPUACTORS_TRY(check_resources(request.resources));
  GPUACTORS_TRY(check_name("node", request.node));
  if (request.node_is_soft && request.node.empty())
    return fail(Errc::invalid_argument, "a node is only a wish, but none is named: name it in node");
  GPUACTORS_TRY(check_count("labels", request.labels.size(), limits::labels_per_request));
  for (const auto& [key, condition] : request.labels)
    GPUACTORS_TRY(check_condition(key, condition));
  GPUACTORS_TRY(check_priority(request.priority));
  GPUACTORS_TRY(check_timeout(request.queue_timeout));
  if (request.group ? request.bundle < -1 : request.bundle < -1 || request.bundle > 0)
    return fail(Errc::invalid_argument,
                request.group ? fmt::format("bundle is {}: name one from 0, or -1 for any", request.bundle)
                              : fmt::format("bundle is {} without a group: name the group too", request.bundle));
  return {};
}

Result<void> validate(const GroupRequest& group) {
  GPUACTORS_TRY(check_name("name", group.name));
  GPUACTORS_TRY(check_priority(group.priority));
  GPUACTORS_TRY(check_timeout(group.queue_timeout));
  if (group.bundles.empty())
    return fail(Errc::invalid_argument, "a placement group needs at least one bundle");
  if (group.bundles.size() > limits::bundles_per_group)
    return fail(Errc::invalid_argument, fmt::format("a placement group has {} bundles: at most {} are allowed",
                                                    group.bundles.size(), limits::bundles_per_group));
  for (std::size_t i = 0; i < group.bundles.size(); ++i) {
    const auto& bundle = group.bundles[i];
    if (auto ok = validate(bundle); !ok)
      return fail(Errc::invalid_argument, fmt::format("bundle {}: {}", i, ok.error().message()));
    if (bundle.group || bundle.parent)
      return fail(Errc::invalid_argument, fmt::format("bundle {}: a bundle is in no other group and has no parent", i));
    if (bundle.type)
      return fail(Errc::invalid_argument, fmt::format("bundle {}: a bundle is for all types", i));
  }
  return {};
}

Result<void> validate_quota(std::string_view owner, std::optional<Share> limit) {
  if (owner.empty())
    return fail(Errc::invalid_argument, "a quota has no owner: name one, or * for all without a quota of their own");
  GPUACTORS_TRY(check_name("the owner of a quota", owner));
  return check_amount(fmt::format("the quota of \"{}\"", owner), limit.value_or(Share{}));
}

Result<void> validate(const NodeSpec& node) {
  if (node.name.empty())
    return fail(Errc::invalid_argument, "a node needs a name");
  GPUACTORS_TRY(check_name("the name of a node", node.name));
  GPUACTORS_TRY(check_amount("cpus", node.cpus));
  GPUACTORS_TRY(check_labels(node.labels));
  GPUACTORS_TRY(check_resources(node.resources));
  if (node.devices.size() > limits::devices_per_node)
    return fail(Errc::invalid_argument, fmt::format("node {} has {} devices: at most {} are allowed", node.name,
                                                    node.devices.size(), limits::devices_per_node));
  for (const auto& device : node.devices) {
    GPUACTORS_TRY(check_name("accelerator_type", device.accelerator_type));
    GPUACTORS_TRY(check_name("uuid", device.uuid));
    GPUACTORS_TRY(check_bytes("memory_bytes", device.memory_bytes));
    if (device.numa_node < -1)
      return fail(Errc::invalid_argument,
                  fmt::format("numa_node is {}: a NUMA node counts from 0, and -1 is unknown", device.numa_node));
  }
  GPUACTORS_TRY(check_types(node.name, node.types));
  return check_distances(node);
}

} // namespace gpuactors
