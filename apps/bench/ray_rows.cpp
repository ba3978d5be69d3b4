#include "ray_rows.hpp"

#include "floor.hpp"
#include "huge_pages.hpp"
#include "ray_table.hpp"
#include "remote_cluster.hpp"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <numeric>

namespace gpuactors::bench {

namespace {

constexpr int one_by_one = 2'000;
constexpr int in_flight = 1'000;
constexpr int in_bulk = 20'000;
constexpr double microseconds_a_second = 1e6;

/// Measures what lies under a row, in the unit of the row; empty where nothing does.
std::function<double()> floor_under(RayFloor kind, const std::function<double(int count, int flying)>& request_us) {
  switch (kind) {
  case RayFloor::one_request:
    return [=] { return microseconds_a_second / request_us(one_by_one, 1); };
  case RayFloor::many_requests:
    return [=] { return microseconds_a_second / request_us(in_bulk, in_flight); };
  case RayFloor::memcpy_of_put:
    return
        [source = std::make_shared<std::vector<char>>(put_bytes, 1), target = std::make_shared<HugePages>(put_bytes)] {
          const auto start = now_ns();
          std::memcpy(target->data(), source->data(), put_bytes);
          return put_gigabytes / (now_ns() - start) * 1e9;
        };
  case RayFloor::none:
    break;
  }
  return {};
}

/// As `timeit` of Ray: rounds of so many seconds, after one that warms up. The floor has its turn after each.
void time_it(Row& row, const Once& once, const std::function<double()>& floor, const RayRun& run) {
  const auto round = [&](double seconds) {
    double done = 0;
    const auto start = now_ns();
    do
      done += once();
    while (now_ns() - start < seconds * 1e9);
    return done / (now_ns() - start) * 1e9;
  };
  round(run.seconds / 2);
  if (floor)
    floor();
  std::vector<double> rates;
  std::vector<double> floors;
  for (int i = 0; i < run.rounds; ++i) {
    rates.push_back(round(run.seconds));
    if (floor)
      floors.push_back(floor());
  }
  summarize(row, rates, floors);
  row.value = std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
}

void run_rows(const RayBed& bed, const std::function<double(int, int)>& request_us, const RayRun& run,
              std::vector<Row>& rows) {
  for (const auto& wanted : ray_table()) {
    if (wanted.name.find(run.filter) == std::string::npos || (bed.mode == "embedded" && wanted.needs_processes))
      continue;
    fmt::print(stderr, "running {}, {}\n", wanted.name, bed.mode);
    Row row;
    row.name = wanted.name;
    row.unit = wanted.name.find("gigabytes") != std::string::npos ? "GB/s" : "1/s";
    row.mode = bed.mode;
    row.at_most = false;
    row.peer_name = wanted.peer_name;
    if (bed.mode != "tls") {
      const auto& bounds = bed.mode == "plain" ? wanted.plain : wanted.embedded;
      row.bound = bounds.floor;
      row.peer_bound = bounds.peer;
    }
    time_it(row, wanted.prepare(bed, run), floor_under(wanted.floor, request_us), run);
    rows.push_back(std::move(row));
  }
}

void run_embedded(const RayRun& run, std::vector<Row>& rows) {
  EmbedOptions options;
  options.nodes = {{.name = "local", .devices = "host:1x1GiB", .labels = {}, .resources = {{"custom", 100}}}};
  auto cluster = check(Cluster::embed(std::move(options)));
  const LocalFloor floor{cluster};
  run_rows(
      {cluster, "embedded"}, [&](int count, int flying) { return floor.ask(count, flying); }, run, rows);
}

} // namespace

std::vector<Row> run_ray_rows(const RayRun& run) {
  std::vector<Row> rows;
  for (const auto& mode : run.modes)
    if (mode == "embedded") {
      run_embedded(run, rows);
    } else {
      Remote remote{{.tls = mode == "tls"}};
      run_rows(
          {remote.cluster(), mode}, [&](int count, int flying) { return remote.floor(count, flying); }, run, rows);
    }
  return rows;
}

std::vector<std::string> ray_row_names() {
  std::vector<std::string> result;
  for (const auto& row : ray_table())
    result.push_back(row.name);
  return result;
}

} // namespace gpuactors::bench
