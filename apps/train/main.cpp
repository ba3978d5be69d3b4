// gpuactors-train: trains networks as actors that own devices, or parts of them.
#include "bar.hpp"
#include "csv.hpp"
#include "curve_file.hpp"
#include "jobs.hpp"
#include "options.hpp"
#include "plan.hpp"

#include <gpuactors/base/stop_signals.hpp>
#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/cluster/daemon.hpp>

#include <apps/nn/files.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace train {

namespace {

using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::StopSignals;

constexpr int interrupted = 130;

/// The data in the cluster, and what every training of this program begins with.
struct Lesson {
  gpuactors::Shared<gpuactors::Tensor> features;
  gpuactors::Shared<gpuactors::Tensor> labels;
  Plan plan;
};

Result<void> check_layers(const TrainOptions& options, const Table& table) {
  if (options.layers.empty())
    return {};
  if (options.layers.front() != table.inputs)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("--layers begins with {}, but the rows of {} have {} numbers before the label",
                                       options.layers.front(), options.data, table.inputs));
  if (options.layers.back() < table.classes)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("--layers ends with {}, but {} has labels up to {}: at least {} outputs are due",
                                       options.layers.back(), options.data, table.classes - 1, table.classes));
  return {};
}

Result<Lesson> prepare(gpuactors::Cluster& cluster, const TrainOptions& options, const Table& table) {
  Lesson lesson;
  GPUACTORS_LET(features, cluster.put(table.features, {table.rows, table.inputs}));
  GPUACTORS_LET(labels, cluster.put(table.labels, {table.rows}));
  lesson.features = features;
  lesson.labels = labels;
  auto& plan = lesson.plan;
  const auto sizes =
      options.layers.empty() ? std::vector<std::int64_t>{table.inputs, 128, table.classes} : options.layers;
  plan.mutable_sizes()->Add(sizes.begin(), sizes.end());
  plan.set_activation(options.activation);
  plan.set_wide(options.wide);
  plan.set_input_scale(input_scale_for(table.features));
  plan.set_optimizer(options.optimizer);
  plan.set_rate(options.rate);
  plan.set_momentum(options.optimizer == "sgd" ? options.momentum : 0);
  plan.set_weight_decay(options.weight_decay);
  plan.set_seed(options.seed);
  plan.set_split_seed(options.seed);
  plan.set_test_part(options.test_part);
  plan.set_batch(options.batch);
  *plan.mutable_features() = lesson.features.ref();
  *plan.mutable_labels() = lesson.labels.ref();
  plan.set_checkpoint_epochs(options.checkpoint_epochs);
  plan.set_nccl(options.nccl);
  return lesson;
}

gpuactors::Options resources_of(const TrainOptions& options) {
  gpuactors::Options resources;
  resources.gpus = options.gpus;
  resources.max_restarts = options.max_restarts;
  return resources;
}

Watcher watch(Bar& bar, const StopSignals& signals) {
  Watcher watcher;
  watcher.progress = [&bar, begin = gpuactors::Clock::now()](const Progress& progress, const Outcome& so_far) {
    const auto seconds = std::chrono::duration<double>(gpuactors::Clock::now() - begin).count();
    const auto part =
        static_cast<double>(progress.steps() % so_far.steps_per_epoch) / static_cast<double>(so_far.steps_per_epoch);
    bar.show(progress.epochs(), part, so_far.last_loss(), static_cast<double>(so_far.rows) / seconds);
  };
  watcher.notice = [&bar](std::string_view text) { bar.say(text); };
  watcher.stop = [&signals] { return signals.came(); };
  return watcher;
}

// -- one network ---------------------------------------------------------------------------------

/// Trains the network that checkpoint and curve are of.
Result<Outcome> train_first(gpuactors::Cluster& cluster, const StopSignals& signals, const TrainOptions& options,
                            const Plan& plan, CurveFile& curve) {
  Bar bar{options.epochs};
  auto watcher = watch(bar, signals);
  watcher.begins = [&curve](const Status& first) { return curve.begins(first); };
  watcher.fails = [&](const Outcome& so_far) {
    // --resume wants it beside the checkpoints that were written.
    if (const auto written = so_far.losses.empty() ? Result<void>{} : curve.write(so_far); !written)
      bar.say(written.error().message());
  };
  if (options.workers > 1) {
    GPUACTORS_LET(
        group,
        train_group(cluster, {plan, options.workers, options.on_loss, options.epochs, resources_of(options)}, watcher));
    if (group.workers < options.workers)
      bar.say(fmt::format("{} of {} workers were left at the end", group.workers, options.workers));
    return std::move(group.outcome);
  }
  GPUACTORS_LET(trainer, await_start(cluster.spawn_async("trainer", plan, resources_of(options)), watcher));
  auto outcome = follow(trainer, options.epochs, watcher);
  static_cast<void>(cluster.kill(trainer));
  return outcome;
}

/// The accuracies of the other splits.
Result<std::vector<double>> train_splits(gpuactors::Cluster& cluster, const StopSignals& signals,
                                         const TrainOptions& options, const Plan& first) {
  std::vector<Plan> plans;
  for (std::size_t i = 1; i < options.splits; ++i) {
    auto plan = first;
    plan.clear_checkpoint();
    plan.clear_resume();
    plan.set_split_seed(first.split_seed() + i);
    plans.push_back(std::move(plan));
  }
  JobWatcher watcher;
  watcher.stop = [&signals] { return signals.came(); };
  std::vector<double> accuracies;
  for (auto& result : run_jobs(cluster, plans, resources_of(options), options.epochs, watcher)) {
    if (!result)
      return gpuactors::fail(result.error());
    accuracies.push_back(result->quality.accuracy());
  }
  return accuracies;
}

/// The loss of the last epoch; or, when nothing was learnt, the one that is known from before, if any is.
std::string loss_in_words(const Outcome& outcome) {
  if (std::any_of(outcome.losses.begin(), outcome.losses.end(), [](double loss) { return !std::isnan(loss); }))
    return fmt::format(", loss {:.6f}", outcome.last_loss());
  return outcome.status.has_last_loss() ? fmt::format(", loss of the last step {:.6f}", outcome.status.last_loss())
                                        : std::string{};
}

/// Where the loss curve goes; empty: nowhere.
std::string curve_path(const TrainOptions& options) {
  return options.curve.empty() && !options.checkpoint.empty() ? options.checkpoint + ".csv" : options.curve;
}

Result<int> train_one(gpuactors::Cluster& cluster, const StopSignals& signals, const TrainOptions& options,
                      Lesson& lesson) {
  auto& plan = lesson.plan;
  if (!options.checkpoint.empty()) {
    // Workers have folders of their own.
    std::error_code failed;
    plan.set_checkpoint(std::filesystem::absolute(options.checkpoint, failed).lexically_normal().string());
    if (failed)
      return gpuactors::fail(Errc::unavailable, fmt::format("the folder of the checkpoint {} is unknown: {}",
                                                            options.checkpoint, failed.message()));
  }
  plan.set_resume(options.resume);
  GPUACTORS_LET(curve, CurveFile::open({curve_path(options), options.resume, options.plot, "loss of " + options.data}));
  auto trained = train_first(cluster, signals, options, plan, curve);
  if (!trained && signals.came() && trained.error().code() == Errc::cancelled) {
    fmt::print("{}\n", trained.error().message());
    return interrupted;
  }
  GPUACTORS_LET(outcome, std::move(trained));
  fmt::print("{} steps on {}, {}, in {:.2f} s ({}){}\n", outcome.losses.size(), outcome.status.node(),
             outcome.status.device(), outcome.seconds,
             rate_text(static_cast<double>(outcome.rows) / std::max(outcome.seconds, 1e-9)), loss_in_words(outcome));
  const bool diverged = !std::isfinite(outcome.last_loss());
  if (diverged)
    fmt::print("the loss is no number any more: a lower --rate may help\n");
  if (!options.checkpoint.empty())
    fmt::print("checkpoint: {}\n", options.checkpoint);
  GPUACTORS_TRY(curve.write(outcome));
  if (outcome.stopped) {
    fmt::print("stopped after step {}{}\n", outcome.status.steps(),
               options.checkpoint.empty() ? "" : "; --resume goes on from there");
    return interrupted;
  }
  if (diverged)
    return 1;
  if (outcome.quality.rows() == 0)
    return 0;
  std::vector<double> accuracies{outcome.quality.accuracy()};
  if (options.workers == 1) {
    auto others = train_splits(cluster, signals, options, plan);
    if (signals.came()) {
      fmt::print("stopped before all splits were done; test accuracy of the first: {:.4f}, {} rows\n",
                 outcome.quality.accuracy(), outcome.quality.rows());
      return interrupted;
    }
    GPUACTORS_TRY(others);
    accuracies.insert(accuracies.end(), others->begin(), others->end());
  }
  const auto mean = std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / static_cast<double>(accuracies.size());
  fmt::print("test accuracy: {:.4f}", mean);
  if (accuracies.size() > 1)
    fmt::print(" (mean of {} splits: {:.4f})", accuracies.size(), fmt::join(accuracies, " "));
  fmt::print(", {} rows\n", outcome.quality.rows());
  return 0;
}

// -- a sweep -------------------------------------------------------------------------------------

/// Whether a training of a sweep may be its best: it came to its end, has not diverged, and was tested.
bool is_comparable(const Outcome& outcome) {
  return !outcome.stopped && outcome.quality.rows() > 0 && std::isfinite(outcome.last_loss());
}

void print_sweep(const Sweep& sweep, const std::vector<Result<Outcome>>& results) {
  double best = -1;
  for (const auto& result : results)
    best = result && is_comparable(*result) ? std::max(best, result->quality.accuracy()) : best;
  fmt::print("{:>12}  {:>10}  {:>10}  {:>8}  {:>8}  {}\n", sweep.name, "loss", "test loss", "accuracy", "seconds",
             "where");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& result = results[i];
    if (!result) {
      fmt::print("{:>12}  {}\n", sweep.values[i], gpuactors::to_string(result.error()));
      continue;
    }
    const auto tested = result->quality.rows() > 0;
    const auto is_best = is_comparable(*result) && result->quality.accuracy() == best;
    fmt::print("{:>12}  {:>10.6f}  {:>10}  {:>8}  {:>8.2f}  {}, {}{}\n", sweep.values[i], result->last_loss(),
               tested ? fmt::format("{:.6f}", result->quality.loss()) : "-",
               tested ? fmt::format("{:.4f}", result->quality.accuracy()) : "-", result->seconds, result->status.node(),
               result->status.device(),
               result->stopped ? "  stopped"
               : is_best       ? "  best"
                               : "");
  }
}

Result<int> train_sweep(gpuactors::Cluster& cluster, const StopSignals& signals, const TrainOptions& options,
                        const Lesson& lesson) {
  std::vector<Plan> plans;
  for (const auto value : options.sweep->values) {
    auto plan = lesson.plan;
    apply(*options.sweep, value, plan);
    plans.push_back(std::move(plan));
  }
  const bool terminal = isatty(STDERR_FILENO) != 0;
  JobWatcher watcher;
  watcher.stop = [&signals] { return signals.came(); };
  watcher.changed = [terminal](const JobCounts& counts) {
    fmt::print(stderr, "{}{} of {} trainings done, {} running, {} waiting{}", terminal ? "\r\x1b[K" : "", counts.done,
               counts.all, counts.running, counts.all - counts.done - counts.running, terminal ? "" : "\n");
    std::fflush(stderr);
  };
  const auto results = run_jobs(cluster, plans, resources_of(options), options.epochs, watcher);
  if (terminal)
    fmt::print(stderr, "\n");
  print_sweep(*options.sweep, results);
  if (signals.came())
    return interrupted;
  return std::all_of(results.begin(), results.end(), [](const auto& result) { return result.has_value(); }) ? 0 : 1;
}

/// What a training writes, and what that is.
std::vector<std::pair<const char*, std::filesystem::path>> written_files(const TrainOptions& options) {
  std::vector<std::pair<const char*, std::filesystem::path>> files;
  if (!options.checkpoint.empty())
    files.emplace_back("the checkpoint", options.checkpoint);
  if (const auto curve = curve_path(options); !curve.empty()) {
    files.emplace_back("the loss curve", curve);
    if (options.plot)
      files.emplace_back("the picture of the loss curve", picture_of(curve));
  }
  return files;
}

/// No file that is written may be the data, or another one that is written: the last one would be all that is left.
Result<void> check_apart(const TrainOptions& options) {
  auto files = written_files(options);
  files.emplace(files.begin(), "--data", options.data);
  std::map<std::filesystem::path, const char*> seen;
  for (const auto& [what, path] : files) {
    std::error_code failed;
    // Absolute first: what is not there yet stays relative otherwise.
    const auto absolute = nn::behind_links(std::filesystem::absolute(path, failed));
    const auto real = std::filesystem::weakly_canonical(absolute, failed);
    const auto [other, is_new] = seen.emplace(failed ? absolute.lexically_normal() : real, what);
    if (!is_new)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("{} and {} would be one file, {}: give one of them another name",
                                         other->second, what, path.string()));
  }
  return {};
}

/// Finds out before the training whether what it writes has a place, and replaces nothing that may have taken days.
Result<void> check_files(const TrainOptions& options) {
  GPUACTORS_TRY(check_apart(options));
  for (const auto& file : {options.checkpoint, options.curve}) {
    std::error_code failed;
    const auto folder = nn::behind_links(std::filesystem::absolute(file, failed)).parent_path();
    if (!file.empty() && !std::filesystem::is_directory(folder, failed))
      return gpuactors::fail(gpuactors::Errc::not_found,
                             fmt::format("{} cannot be written: there is no folder {}", file, folder.string()));
  }
  for (const auto& [what, path] : written_files(options)) {
    std::error_code unknown;
    const auto type = std::filesystem::status(path, unknown).type();
    if (type == std::filesystem::file_type::none)
      return gpuactors::fail(Errc::unavailable,
                             fmt::format("{} cannot be written: {}", path.string(), unknown.message()));
    if (type != std::filesystem::file_type::not_found && type != std::filesystem::file_type::regular)
      return gpuactors::fail(
          Errc::invalid_argument,
          fmt::format("{} would replace {}, which is there and is no file: give it another name", what, path.string()));
  }
  std::error_code failed;
  if (!options.resume && !options.overwrite && std::filesystem::is_regular_file(options.checkpoint, failed))
    return gpuactors::fail(
        Errc::already_exists,
        fmt::format("{} is there already: --resume goes on from it, --overwrite begins anew", options.checkpoint));
  return {};
}

Result<int> run(const TrainOptions& options) {
  GPUACTORS_TRY(check_files(options));
  GPUACTORS_LET(table, read_csv(options.data, options.header));
  GPUACTORS_TRY(check_layers(options, table));
  fmt::print("{}: {} rows of {} numbers, {} classes\n", options.data, table.rows, table.inputs, table.classes);
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(options.cluster));
  const StopSignals signals;
  GPUACTORS_LET(lesson, prepare(cluster, options, table));
  return options.sweep ? train_sweep(cluster, signals, options, lesson) : train_one(cluster, signals, options, lesson);
}

} // namespace

} // namespace train

int main(int argc, char** argv) {
  // First of all, since nodes start this program as their worker.
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  int exit_code = 0;
  const auto options = train::parse_options(argc, argv, exit_code);
  if (!options)
    return exit_code;
  try {
    const auto done = train::run(*options);
    if (!done)
      fmt::print(stderr, "gpuactors-train: {}\n", done.error().message());
    return done ? *done : 1;
  } catch (const std::exception& exception) { // no memory for the data, say
    fmt::print(stderr, "gpuactors-train: {}\n", exception.what());
    return 1;
  }
}
