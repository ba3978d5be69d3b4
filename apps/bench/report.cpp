#include "report.hpp"

#include <apps/nn/files.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace gpuactors::bench {

namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(double value) {
  return value == 0 || !std::isfinite(value) ? Json(nullptr) : Json(value);
}

double number_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found == row.end() || found->is_null() ? 0 : found->get<double>();
}

FloorKind kind_of(std::string_view name) {
  for (const auto kind : {FloorKind::target, FloorKind::smaller})
    if (to_string(kind) == name)
      return kind;
  return FloorKind::floor;
}

Row row_of(const Json& json) {
  Row row;
  row.name = json.at("name").get<std::string>();
  row.unit = json.at("unit").get<std::string>();
  row.mode = json.value("mode", "");
  row.value = json.at("value").get<double>();
  row.floor = number_of(json, "floor");
  row.floor_kind = kind_of(json.value("floor_kind", "floor"));
  row.ratio = number_of(json, "floor_ratio");
  row.least = number_of(json, "least");
  row.most = number_of(json, "most");
  row.bound = number_of(json, "bound");
  row.at_most = json.value("at_most", true);
  row.peer = number_of(json, "peer");
  row.peer_name = json.value("peer_name", "");
  row.peer_by = json.value("peer_by", "");
  row.peer_bound = number_of(json, "peer_bound");
  return row;
}

Result<Json> parse_file(const std::filesystem::path& path) {
  constexpr std::size_t most = 64U << 20;
  GPUACTORS_LET(bytes, nn::read_file(path, most));
  auto json = Json::parse(reinterpret_cast<const char*>(bytes.data()),
                          reinterpret_cast<const char*>(bytes.data() + bytes.size()), nullptr, false);
  if (json.is_discarded())
    return fail(Errc::invalid_argument, fmt::format("{} is not JSON", path.string()));
  return json;
}

/// Runs `read` on a file's JSON; what is not there, or of another type, becomes a sentence.
template <class Read>
Result<void> read_json(const std::filesystem::path& path, const Read& read) {
  GPUACTORS_LET(json, parse_file(path));
  try {
    return read(json);
  } catch (const nlohmann::json::exception& e) {
    return fail(Errc::invalid_argument, fmt::format("{} is not a file of rows: {}", path.string(), e.what()));
  }
}

/// Each once: "Ray 2.60.0, Ray C++ 2.60.0".
std::string names_of_peers(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows)
    if (!row.peer_by.empty() && std::find(names.begin(), names.end(), row.peer_by) == names.end())
      names.push_back(row.peer_by);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string bound_text(const Row& row, double bound, bool keeps) {
  if (bound == 0)
    return {};
  return fmt::format("{} {:.3g} {}", row.at_most ? "<=" : ">=", bound, keeps ? "holds" : "MISSED");
}

/// Seven places, whatever the size.
std::string value_text(double value) {
  const auto size = std::abs(value);
  return size >= 100'000 ? fmt::format("{:.0f}", value)
         : size >= 1     ? fmt::format("{:.2f}", value)
                         : fmt::format("{:.4f}", value);
}

} // namespace

void print_header(const Machine& machine) {
  for (const auto& [name, value] : machine)
    fmt::print("{:<17} {}\n", name, value);
  fmt::print("\n");
}

void print_table(const Report& report) {
  const auto has = [&](auto part) { return std::any_of(report.rows.begin(), report.rows.end(), part); };
  const auto modes = has([](const Row& row) { return !row.mode.empty(); });
  const auto peers = has([](const Row& row) { return row.peer != 0; });
  const auto several = has([&](const Row& row) { return row.peer != 0 && row.peer_by != report.peer; });
  std::string line = fmt::format("{:<36}", "ROW");
  if (modes)
    line += fmt::format(" {:<9}", "MODE");
  line += fmt::format(" {:>12} {:<7} {:>12} {:<7} {:>8} {:>16} {:<15}", "VALUE", "UNIT", "FLOOR", "KIND", "RATIO",
                      "LEAST..MOST", "BOUND");
  if (peers)
    line += fmt::format(" {:>12} {:>8} {:<15} {}", "PEER", "RATIO", "BOUND", several ? "BY" : "");
  const auto print_line = [&line] {
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  };
  print_line();
  for (const auto& row : report.rows) {
    line = fmt::format("{:<36}", row.name);
    if (modes)
      line += fmt::format(" {:<9}", row.mode);
    line += fmt::format(" {:>12} {:<7} {:>12} {:<7} {:>8} {:>16} {:<15}", value_text(row.value), row.unit,
                        row.floor == 0 ? "-" : value_text(row.floor), row.floor == 0 ? "" : to_string(row.floor_kind),
                        row.ratio == 0 ? "-" : fmt::format("{:.3f}", row.ratio),
                        fmt::format("{:.3f}..{:.3f}", row.least, row.most),
                        bound_text(row, row.bound, row.keeps(row.ratio, row.bound)));
    if (peers && row.peer != 0)
      line += fmt::format(" {:>12} {:>8.2f} {:<15} {}", value_text(row.peer), row.peer_ratio(),
                          bound_text(row, row.peer_bound, row.keeps(row.peer_ratio(), row.peer_bound)),
                          several ? row.peer_by : "");
    print_line();
  }
  if (peers)
    fmt::print("\nPEER is {}.\n", report.peer);
  if (!report.left_out.empty())
    fmt::print("\n{}\n", report.left_out);
}

std::string to_json(const Report& report) {
  Json json;
  json["machine"] = Json::object();
  for (const auto& [name, value] : report.machine)
    json["machine"][name] = value;
  json["peer"] = report.peer.empty() ? Json(nullptr) : Json(report.peer);
  if (!report.left_out.empty())
    json["left_out"] = report.left_out;
  json["rows"] = Json::array();
  for (const auto& row : report.rows) {
    Json one;
    one["name"] = row.name;
    if (!row.mode.empty())
      one["mode"] = row.mode;
    one["value"] = row.value;
    one["unit"] = row.unit;
    one["floor"] = number_or_null(row.floor);
    if (row.floor != 0)
      one["floor_kind"] = to_string(row.floor_kind);
    one["floor_ratio"] = number_or_null(row.ratio);
    one["least"] = row.least;
    one["most"] = row.most;
    one["bound"] = number_or_null(row.bound);
    one["at_most"] = row.at_most;
    one["peer"] = number_or_null(row.peer);
    if (row.peer != 0)
      one["peer_by"] = row.peer_by;
    one["peer_ratio"] = number_or_null(row.peer_ratio());
    if (!row.peer_name.empty())
      one["peer_name"] = row.peer_name;
    one["peer_bound"] = number_or_null(row.peer_bound);
    one["holds"] = row.holds();
    json["rows"].push_back(std::move(one));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Report> read_report(const std::filesystem::path& path) {
  Report report;
  GPUACTORS_TRY(read_json(path, [&](const Json& json) -> Result<void> {
    if (const auto machine = json.find("machine"); machine != json.end())
      for (const auto& [name, value] : machine->items())
        report.machine.emplace_back(name, value.template get<std::string>());
    if (const auto peer = json.find("peer"); peer != json.end() && !peer->is_null())
      report.peer = peer->get<std::string>();
    report.left_out = json.value("left_out", "");
    for (const auto& row : json.at("rows")) {
      report.rows.push_back(row_of(row));
      if (auto& last = report.rows.back(); last.peer != 0 && last.peer_by.empty())
        last.peer_by = report.peer;
    }
    return {};
  }));
  return report;
}

Result<void> attach_peers(Report& report, const std::filesystem::path& path) {
  return read_json(path, [&](const Json& json) -> Result<void> {
    std::map<std::string, std::pair<double, std::string>> values;
    for (const auto& row : json.at("rows"))
      values[row.at("name").get<std::string>()] = {row.at("value").get<double>(), row.at("unit").get<std::string>()};
    const auto name = json.at("peer").get<std::string>();
    const auto device = json.value("device", "");
    auto rows = report.rows;
    for (auto& row : rows) {
      const auto found = values.find(row.peer_name.empty() ? row.name : row.peer_name);
      if (found == values.end())
        continue;
      if (found->second.second != row.unit)
        return fail(Errc::invalid_argument, fmt::format("{} has {} in {}, and here it is in {}", path.string(),
                                                        row.name, found->second.second, row.unit));
      if (!device.empty() && device != row.mode)
        return fail(Errc::invalid_argument, fmt::format("{} has {} on a device \"{}\", and here it is on \"{}\"",
                                                        path.string(), row.name, device, row.mode));
      row.peer = found->second.first;
      row.peer_by = name;
    }
    report.rows = std::move(rows);
    report.peer = names_of_peers(report.rows);
    return {};
  });
}

} // namespace gpuactors::bench
