#include "lessons.hpp"

#include <apps/nn/random.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

namespace train::test {

Table make_table(std::int64_t rows, std::int64_t inputs, std::int64_t classes, std::uint64_t seed) {
  nn::Random random{seed};
  std::vector<double> centres(static_cast<std::size_t>(inputs * classes));
  for (auto& centre : centres)
    centre = 4 * random.uniform();
  Table table{rows, inputs, {}, {}, classes};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::size_t>(row % classes);
    table.labels.push_back(static_cast<std::int32_t>(label));
    for (std::int64_t i = 0; i < inputs; ++i)
      table.features.push_back(static_cast<float>(
          centres[label * static_cast<std::size_t>(inputs) + static_cast<std::size_t>(i)] + 2 * random.uniform()));
  }
  return table;
}

Lesson make_lesson(gpuactors::Cluster& cluster, const Table& table, std::int64_t hidden) {
  Lesson lesson;
  lesson.features = must(cluster.put(table.features, {table.rows, table.inputs}));
  lesson.labels = must(cluster.put(table.labels, {table.rows}));
  auto& plan = lesson.plan;
  for (const auto size : {table.inputs, hidden, table.classes})
    plan.add_sizes(size);
  plan.set_activation("relu");
  plan.set_input_scale(input_scale_for(table.features));
  plan.set_optimizer("sgd");
  plan.set_rate(0.05);
  plan.set_momentum(0.9);
  plan.set_seed(3);
  plan.set_split_seed(4);
  plan.set_test_part(0.2);
  plan.set_batch(16);
  *plan.mutable_features() = lesson.features.ref();
  *plan.mutable_labels() = lesson.labels.ref();
  return lesson;
}

gpuactors::Cluster embed() {
  gpuactors::EmbedOptions options;
  options.devices = "host:1x256MiB";
  return must(gpuactors::Cluster::embed(std::move(options)));
}

gpuactors::Options half() {
  gpuactors::Options options;
  options.gpus = 0.5;
  return options;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

GroupSpec group_of(std::size_t workers, const Plan& plan, std::uint64_t epochs) {
  GroupSpec spec;
  spec.plan = plan;
  spec.workers = workers;
  spec.epochs = epochs;
  spec.options.gpus = 0.25;
  return spec;
}

double worst_difference(const std::vector<double>& actual, const std::vector<double>& expected, std::size_t steps) {
  REQUIRE(actual.size() >= steps);
  REQUIRE(expected.size() == actual.size());
  double worst = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto error = std::abs(actual[i] - expected[i]) / expected[i];
    if (!(error <= worst))
      worst = error;
  }
  return worst;
}

Watcher killer(gpuactors::Cluster& cluster, std::size_t rank) {
  Watcher watcher;
  watcher.progress = [&cluster, rank](const Progress& progress, const Outcome&) {
    if (progress.epochs() != 1)
      return;
    const auto state = must(cluster.state());
    for (const auto& actor : state.actors())
      if (actor.name().ends_with("-" + std::to_string(rank)))
        must(cluster.kill(actor.name()));
  };
  return watcher;
}

} // namespace train::test
