#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/plan/reader.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace gpuactors::plan_detail {

namespace {

std::string kind_of(const Json& value) {
  return value.is_object() ? "an object" : value.is_array() ? "an array" : value.dump();
}

[[noreturn]] void wrong(const std::string& place, const Json& value, std::string_view expected) {
  throw ScenarioError(fmt::format("{} is {}: {} is expected", place, kind_of(value), expected));
}

std::optional<std::int64_t> as_integer(const Json& value) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    return std::nullopt;
  if (value.is_number_integer())
    return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    // The bound is below 2^63, because the double nearest to the largest int64 is 2^63 itself.
    if (std::nearbyint(number) == number && std::abs(number) < 9.2e18)
      return static_cast<std::int64_t>(number);
    return std::nullopt;
  }
  if (!value.is_string())
    return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

double as_number(const Json& value, const std::string& place) {
  if (!value.is_number())
    wrong(place, value, "a number");
  const auto number = value.get<double>();
  if (number < 0)
    throw ScenarioError(fmt::format("{} is {}: it cannot be negative", place, value.dump()));
  return number;
}

// Returns the amount. An amount that a rule refuses makes the request refused; the first reason is kept.
Share share_of(Result<Share> amount, std::string& refused) {
  if (amount)
    return *amount;
  if (refused.empty())
    refused = amount.error().message();
  return Share{};
}

std::vector<std::string> read_values(const Json& value, const std::string& place) {
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); }))
    wrong(place, value, "an array of strings");
  return value.get<std::vector<std::string>>();
}

LabelCondition read_condition(const Json& value, const std::string& place) {
  using Op = LabelCondition::Op;
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_array())
    return {Op::in, read_values(value, place)};
  if (!value.is_object())
    wrong(place, value, "a string, an array of strings, or an object with in, not_in or exists");
  const Reader reader(value, place, {"in", "not_in", "exists"});
  if (value.size() != 1)
    throw ScenarioError(
        fmt::format("{} has {} fields: exactly one of in, not_in, exists is expected", place, value.size()));
  if (reader.has("exists"))
    return reader.flag("exists", true) ? Op::exists : Op::absent;
  const auto* field = reader.has("in") ? "in" : "not_in";
  return {reader.has("in") ? Op::in : Op::not_in, read_values(reader.at(field), reader.place_of(field))};
}

void read_amounts(const Reader& reader, ResourceRequest& request, std::string& refused) {
  if (reader.has("gpus"))
    request.gpus = share_of(parse_gpus(reader.number("gpus")), refused);
  request.memory_bytes = static_cast<std::uint64_t>(reader.integer("memory_bytes", 0, 0));
  if (reader.has("cpus"))
    request.cpus = share_of(Share::from_double(reader.number("cpus"), "cpus"), refused);
  request.accelerator_type = reader.text_or_empty("accelerator_type");
  for (const auto& [name, amount] : reader.numbers("resources")) {
    if (const auto ok = check_not_host_memory(name, "the field host_memory_bytes"); !ok && refused.empty())
      refused = ok.error().message();
    request.resources[name] = share_of(Share::from_double(amount, "resource " + name), refused);
  }
  if (const auto bytes = reader.integer("host_memory_bytes", 0, 0); bytes > 0)
    request.resources[std::string{host_memory_resource}] = Share{bytes};
  if (const auto whole = check_whole_units(request.resources); !whole && refused.empty())
    refused = whole.error().message();
  request.node = reader.text_or_empty("node");
  request.node_is_soft = reader.flag("node_soft", false);
  request.labels = reader.conditions("labels");
}

std::string choice(const Reader& reader, const char* field, const std::vector<std::string>& allowed) {
  if (!reader.has(field))
    return allowed.front();
  auto text = reader.text(field);
  if (std::find(allowed.begin(), allowed.end(), text) == allowed.end())
    throw ScenarioError(
        fmt::format("{} is \"{}\": {} is expected", reader.place_of(field), text, fmt::join(allowed, " or ")));
  return text;
}

// The longest queue timeout: longer than any scenario needs, shorter than a clock holds.
constexpr double most_seconds = 1e9;

template <class Request>
void read_waiting(const Reader& reader, Request& request) {
  constexpr auto least = std::numeric_limits<std::int32_t>::min();
  const auto priority = reader.integer("priority", least, 0);
  if (priority > std::numeric_limits<std::int32_t>::max())
    throw ScenarioError(fmt::format("{} is {}: at most {} is allowed", reader.place_of("priority"), priority,
                                    std::numeric_limits<std::int32_t>::max()));
  request.priority = static_cast<int>(priority);
  request.wait_for_nodes = reader.flag("wait_for_nodes", false);
  request.queue = reader.flag("queue", true);
  if (reader.has("queue_timeout")) {
    const auto seconds = std::min(reader.number("queue_timeout"), most_seconds);
    request.queue_timeout = std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
  }
}

std::string read_id(const Reader& reader) {
  auto id = reader.text("id");
  if (id.empty())
    throw ScenarioError(fmt::format("{} is empty: give it a name", reader.place_of("id")));
  return id;
}

const std::vector<std::string> amount_fields = {"gpus",      "memory_bytes",      "cpus", "accelerator_type",
                                                "resources", "host_memory_bytes", "node", "node_soft",
                                                "labels"};
const std::vector<std::string> waiting_fields = {"id",    "priority", "queue_timeout", "wait_for_nodes",
                                                 "queue", "strategy"};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Clamps large values to the largest int, so that later checks still find them too large.
int read_int(const Reader& reader, const char* field, int otherwise) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return static_cast<int>(std::min(reader.integer(field, 0, otherwise), most));
}

std::vector<std::vector<int>> read_distances(const Reader& reader) {
  std::vector<std::vector<int>> rows;
  const auto& values = reader.array("distances");
  for (std::size_t a = 0; a < values.size(); ++a) {
    const auto place = fmt::format("{}[{}]", reader.place_of("distances"), a);
    if (!values[a].is_array())
      wrong(place, values[a], "an array of whole numbers");
    auto& row = rows.emplace_back();
    for (std::size_t b = 0; b < values[a].size(); ++b) {
      const auto number = as_integer(values[a][b]);
      if (!number || *number < 0 || *number > limits::distance)
        wrong(fmt::format("{}[{}]", place, b), values[a][b],
              fmt::format("a whole number from 0 to {}", limits::distance));
      row.push_back(static_cast<int>(*number));
    }
  }
  return rows;
}

void read_devices(const Json& value, const std::string& place, NodeSpec& node) {
  const Reader reader(value, place, {"accelerator_type", "count", "memory_bytes", "uuid", "numa_node"});
  const auto count = reader.integer("count", 0, 1);
  if (static_cast<std::uint64_t>(count) > limits::devices_per_node)
    throw ScenarioError(
        fmt::format("{} is {}: at most {} are allowed", reader.place_of("count"), count, limits::devices_per_node));
  const DeviceSpec device{reader.text_or_empty("accelerator_type"),
                          static_cast<std::uint64_t>(reader.integer("memory_bytes", 0, 0)),
                          reader.text_or_empty("uuid"), read_int(reader, "numa_node", -1)};
  node.devices.insert(node.devices.end(), static_cast<std::size_t>(count), device);
}

} // namespace

// -- Reader ----------------------------------------------------------------------------------------

Reader::Reader(const Json& value, std::string place, const std::vector<std::string>& known)
  : value_(value), place_(std::move(place)) {
  if (!value.is_object())
    wrong(place_, value, "an object");
  for (const auto& [field, unused] : value.items())
    if (std::find(known.begin(), known.end(), field) == known.end())
      throw ScenarioError(fmt::format("{}: unknown field{}", place_of(field), did_you_mean(field, known)));
}

bool Reader::has(const char* field) const {
  return value_.contains(field);
}

std::string Reader::place_of(const std::string& field) const {
  return place_.empty() ? field : place_ + "." + field;
}

const Json& Reader::at(const char* field) const {
  if (!has(field))
    throw ScenarioError(fmt::format("{} is missing", place_of(field)));
  return value_.at(field);
}

std::string Reader::text(const char* field) const {
  const auto& value = at(field);
  if (!value.is_string())
    wrong(place_of(field), value, "a string");
  return value.get<std::string>();
}

std::string Reader::text_or_empty(const char* field) const {
  return has(field) ? text(field) : std::string{};
}

bool Reader::flag(const char* field, bool otherwise) const {
  if (!has(field))
    return otherwise;
  if (!at(field).is_boolean())
    wrong(place_of(field), at(field), "true or false");
  return at(field).get<bool>();
}

std::int64_t Reader::integer(const char* field, std::int64_t least, std::int64_t otherwise) const {
  if (!has(field))
    return otherwise;
  const auto number = as_integer(at(field));
  if (!number)
    wrong(place_of(field), at(field), "a whole number");
  if (*number < least)
    throw ScenarioError(least == 0 ? fmt::format("{} is {}: it cannot be negative", place_of(field), *number)
                                   : fmt::format("{} is {}: at least {} is allowed", place_of(field), *number, least));
  return *number;
}

double Reader::number(const char* field) const {
  return as_number(at(field), place_of(field));
}

std::map<std::string, std::string> Reader::texts(const char* field) const {
  std::map<std::string, std::string> result;
  if (!has(field))
    return result;
  if (!at(field).is_object())
    wrong(place_of(field), at(field), "an object of strings");
  for (const auto& [name, value] : at(field).items()) {
    if (!value.is_string())
      wrong(place_of(field) + "." + name, value, "a string");
    result[name] = value.get<std::string>();
  }
  return result;
}

LabelConditions Reader::conditions(const char* field) const {
  LabelConditions result;
  if (!has(field))
    return result;
  if (!at(field).is_object())
    wrong(place_of(field), at(field), "an object of labels");
  for (const auto& [name, value] : at(field).items())
    result[name] = read_condition(value, place_of(field) + "." + name);
  return result;
}

std::map<std::string, double> Reader::numbers(const char* field) const {
  std::map<std::string, double> result;
  if (!has(field))
    return result;
  if (!at(field).is_object())
    wrong(place_of(field), at(field), "an object of numbers");
  for (const auto& [name, value] : at(field).items())
    result[name] = as_number(value, place_of(field) + "." + name);
  return result;
}

const Json& Reader::array(const char* field) const {
  static const Json none = Json::array();
  if (!has(field))
    return none;
  if (!at(field).is_array())
    wrong(place_of(field), at(field), "an array");
  return at(field);
}

// -- objects of a scenario -------------------------------------------------------------------------

NodeSpec read_node(const Json& value, const std::string& place) {
  const Reader reader(value, place,
                      {"name", "cpus", "labels", "resources", "host_memory_bytes", "devices", "distances", "types"});
  NodeSpec node;
  node.name = reader.text("name");
  const auto amount = [&](double number, const std::string& field) {
    auto share = Share::from_double(number, field);
    if (!share)
      throw ScenarioError(fmt::format("{}: {}", place, share.error().message()));
    return *share;
  };
  if (reader.has("cpus"))
    node.cpus = amount(reader.number("cpus"), "cpus");
  node.labels = reader.texts("labels");
  for (const auto& [name, number] : reader.numbers("resources")) {
    if (const auto ok = check_not_host_memory(name, "the field host_memory_bytes"); !ok)
      throw ScenarioError(fmt::format("{}.resources: {}", place, ok.error().message()));
    node.resources[name] = amount(number, "resource " + name);
  }
  if (const auto bytes = reader.integer("host_memory_bytes", 0, 0); bytes > 0)
    node.resources[std::string{host_memory_resource}] = Share{bytes};
  if (const auto whole = check_whole_units(node.resources); !whole)
    throw ScenarioError(fmt::format("{}.resources: {}", place, whole.error().message()));
  const auto& devices = reader.array("devices");
  for (std::size_t i = 0; i < devices.size(); ++i)
    read_devices(devices[i], fmt::format("{}[{}]", reader.place_of("devices"), i), node);
  node.distances = read_distances(reader);
  if (reader.has("types"))
    node.types = read_values(reader.at("types"), reader.place_of("types"));
  if (const auto valid = validate(node); !valid)
    throw ScenarioError(fmt::format("{}: {}", place, valid.error().message()));
  return node;
}

Submit read_submit(const Json& value, const std::string& place) {
  static const auto fields =
      amount_fields + waiting_fields + std::vector<std::string>{"owner", "type", "group", "bundle", "parent"};
  const Reader reader(value, place, fields);
  Submit submit;
  submit.id = read_id(reader);
  read_amounts(reader, submit.request, submit.refused);
  read_waiting(reader, submit.request);
  submit.request.name = submit.id;
  submit.request.owner = reader.text_or_empty("owner");
  submit.request.strategy =
      choice(reader, "strategy", {"PACK", "SPREAD"}) == "PACK" ? Strategy::pack : Strategy::spread;
  submit.type = reader.text_or_empty("type");
  submit.group = reader.text_or_empty("group");
  submit.parent = reader.text_or_empty("parent");
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  if (!submit.group.empty())
    submit.request.bundle = static_cast<int>(std::min<std::int64_t>(reader.integer("bundle", 0, -1), most));
  else if (reader.has("bundle"))
    throw ScenarioError(fmt::format("{} is given without a group: name the group too", reader.place_of("bundle")));
  return submit;
}

SubmitGroup read_group(const Json& value, const std::string& place) {
  static const auto fields = waiting_fields + std::vector<std::string>{"owner", "bundles", "shrinks"};
  const Reader reader(value, place, fields);
  static const std::vector<std::string> strategies = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
  SubmitGroup group;
  group.id = read_id(reader);
  group.request.name = group.id;
  group.request.owner = reader.text_or_empty("owner");
  read_waiting(reader, group.request);
  const auto strategy = choice(reader, "strategy", strategies);
  group.request.strategy =
      static_cast<GroupStrategy>(std::find(strategies.begin(), strategies.end(), strategy) - strategies.begin());
  group.request.shrinks = reader.flag("shrinks", false);
  const auto& bundles = reader.array("bundles");
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    const auto at = fmt::format("{}[{}]", reader.place_of("bundles"), i);
    std::string refused;
    read_amounts(Reader(bundles[i], at, amount_fields), group.request.bundles.emplace_back(), refused);
    if (group.refused.empty() && !refused.empty())
      group.refused = fmt::format("bundle {}: {}", i, refused);
  }
  return group;
}

QuotaStep read_quota(const Json& value, const std::string& place) {
  const Reader reader(value, place, {"owner", "gpus"});
  QuotaStep quota;
  quota.owner = reader.text("owner");
  if (!reader.has("gpus"))
    return quota;
  auto limit = Share::from_double(reader.number("gpus"), "gpus");
  if (!limit)
    throw ScenarioError(fmt::format("{}: {}", place, limit.error().message()));
  quota.limit = *limit;
  return quota;
}

TypesStep read_types(const Json& value, const std::string& place) {
  const Reader reader(value, place, {"name", "types"});
  TypesStep step;
  step.node = reader.text("name");
  if (reader.has("types"))
    step.types = read_values(reader.at("types"), reader.place_of("types"));
  return step;
}

} // namespace gpuactors::plan_detail
