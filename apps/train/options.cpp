#include "options.hpp"

#include <gpuactors/base/version.hpp>

#include <apps/cli/cluster_options.hpp>
#include <apps/cli/usage.hpp>
#include <apps/nn/trainer.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

constexpr int usage_error = 2;
constexpr std::size_t most_values = 1024;

constexpr auto description =
    R"(Trains a fully connected network to tell classes apart, as an actor that keeps it on a device, or a part of one.
The data are a CSV file of numbers, gzipped or not, with the label (0, 1, 2, ...) in the last column. A part of the rows
of each label is kept for the test. The program is its own worker: give it to gpuactors up or node as --program.)";

constexpr auto examples = R"(
examples:
  apps/train/fetch_digits.sh                                          gets digits.csv.gz (1797 pictures of digits)
  gpuactors-train --data digits.csv.gz --layers 64,128,10 --epochs 30 --gpus 0.5 --checkpoint digits.safetensors
  gpuactors-train --data digits.csv.gz --checkpoint digits.safetensors --resume --epochs 60
  gpuactors-train --data digits.csv.gz --gpus 0.25 --sweep rate=0.1,0.01,0.001
  gpuactors-train --data digits.csv.gz --gpus 0.5 --workers 2 --batch 32 --on-loss shrink
  gpuactors up --devices host:2x2GiB --program $(which gpuactors-train) &
  gpuactors-train --data digits.csv.gz --broker 127.0.0.1:7711        the same on a cluster of processes
)";

/// Says what is wrong with a seed, if anything is. The parser would take -1, and 010 for 8.
std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc{} && end == text.data() + text.size() && (text.size() == 1 || text.front() != '0'))
    return {};
  return fmt::format("a seed is a whole number in decimal digits, from 0 to {}, not {}",
                     std::numeric_limits<std::uint64_t>::max(), text);
}

void add_learning(CLI::App& program, TrainOptions& options) {
  program.add_option("--data", options.data, "CSV file to learn from; the last column is the label")
      ->type_name("FILE")
      ->required();
  program.add_flag("--header", options.header, "Its first line has names, not numbers");
  program.add_option("--layers", options.layers, "Inputs, hidden layers, outputs; inputs,128,classes when left out")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  program.add_option("--activation", options.activation, "Behind hidden layers")
      ->check(CLI::IsMember({"relu", "tanh", "identity"}))
      ->capture_default_str();
  program.add_option("--epochs", options.epochs, "How often each row is learnt, in all")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  program.add_option("--batch", options.batch, "Rows of one step, for each worker")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  program.add_option("--optimizer", options.optimizer, "How parameters follow their gradients")
      ->check(CLI::IsMember({"sgd", "adam"}))
      ->capture_default_str();
  program.add_option("--rate", options.rate, "Rate of learning")->capture_default_str();
  program.add_option("--momentum", options.momentum, "Of sgd")->capture_default_str();
  program.add_option("--weight-decay", options.weight_decay, "Pull of parameters towards 0")->capture_default_str();
  program.add_flag("--double", options.wide, "Compute in float64 instead of float32");
  program.add_option("--seed", options.seed, "Decides weights, orders and splits: the same seed, the same network")
      ->check(CLI::Validator{&check_seed, ""})
      ->capture_default_str();
  program.add_option("--test-part", options.test_part, "Part of the rows of each label that is kept for the test")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  program
      .add_option("--splits", options.splits,
                  "Trainings, each with other rows for the test, that the accuracy is the mean of; checkpoint and "
                  "curve are those of the first. One with --workers and --sweep")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_files(CLI::App& program, TrainOptions& options) {
  program
      .add_option("--checkpoint", options.checkpoint,
                  "Keep what was learnt in this safetensors file; a worker that dies goes on from it. Nodes on other "
                  "machines need it on a file system that they share")
      ->type_name("FILE");
  program.add_option("--checkpoint-epochs", options.checkpoint_epochs, "Epochs between two checkpoints")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  program.add_flag("--resume", options.resume, "Go on from the checkpoint, as if it had not been interrupted");
  program.add_flag("--overwrite", options.overwrite, "Begin anew although there is a checkpoint, and replace it");
  program
      .add_option("--curve", options.curve,
                  "Write the loss of each step to this CSV file; the checkpoint's name "
                  "with .csv behind it when left out")
      ->type_name("FILE");
  program.add_flag("--plot", options.plot, "Draw it too: an SVG picture beside the CSV file");
}

void add_resources(CLI::App& program, TrainOptions& options, std::string& on_loss, std::string& sweep) {
  program.add_option("--gpus", options.gpus, "The device, or the part of one, for each training or worker")
      ->capture_default_str();
  program.add_option("--max-restarts", options.max_restarts, "How often a training restarts when its worker dies")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  program.add_option("--workers", options.workers, "Actors that train one network together, each on its own rows")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  program
      .add_option(
          "--on-loss", on_loss,
          "What becomes of the others when one of the workers dies: stop ends the training, shrink goes on "
          "without it from the beginning of the epoch, restart starts it anew, at most --max-restarts times, and "
          "goes on with it")
      ->check(CLI::IsMember({"stop", "shrink", "restart"}))
      ->capture_default_str();
  program.add_flag("--nccl", options.nccl,
                   "Let workers on CUDA devices of their own sum by NCCL, where libnccl.so.2 is found. Not by itself, "
                   "since NCCL opens connections of its own, without encryption and without certificates: for "
                   "networks that are trusted. Implied by --insecure");
  program
      .add_option("--sweep", sweep,
                  "Train with each of several values of rate, momentum, weight-decay, batch or seed, as many at once "
                  "as fit, and print a table")
      ->type_name("NAME=VALUE,...");
}

void add_cluster(CLI::App& program, gpuactors::OpenOptions& cluster) {
  gpuactors::cli::ConnectionTexts texts;
  texts.reconnect_grace =
      "How long trainers stay when the connection to the broker is lost; they end at once when left out";
  gpuactors::cli::add_embedding(program, cluster.embed);
  gpuactors::cli::add_connection(program, cluster.connect, texts);
}

/// What options mean together. `splits` says whether somebody has asked for a number of them.
Result<void> check_together(const TrainOptions& options, bool splits) {
  const auto wrong = [](std::string text) { return gpuactors::fail(Errc::invalid_argument, std::move(text)); };
  if (!(options.gpus <= 1))
    return wrong("--gpus is 1 at most, since a training or worker uses one device: --workers N has N of them train one "
                 "network together");
  if (splits && options.splits > 1 && (options.sweep || options.workers > 1))
    return wrong(fmt::format("{} has one split: leave --splits out", options.sweep ? "a sweep" : "--workers above 1"));
  if (options.layers.size() == 1)
    return wrong("--layers takes at least inputs and outputs, such as 64,128,10");
  if (options.resume && options.checkpoint.empty())
    return wrong("--resume goes on from a checkpoint: name it by --checkpoint FILE");
  if (options.overwrite && (options.resume || options.checkpoint.empty()))
    return wrong(
        "--overwrite begins anew where --checkpoint FILE has something: without --resume, which goes on from it");
  if (options.sweep && (options.workers > 1 || options.resume || !options.checkpoint.empty()))
    return wrong("a sweep trains several networks, without --workers, --checkpoint and --resume");
  if (options.sweep && options.sweep->name == "momentum" && options.optimizer != "sgd")
    return wrong("a sweep of momentum is one of sgd: " + options.optimizer + " has none");
  if (options.sweep && (!options.curve.empty() || options.plot))
    return wrong("a sweep prints a table and draws no curves");
  if (options.plot && options.curve.empty() && options.checkpoint.empty())
    return wrong("--plot draws beside the loss curve: name that by --curve FILE, or a --checkpoint FILE");
  nn::Optimizer optimizer;
  optimizer.rate = options.rate;
  optimizer.momentum = options.momentum;
  optimizer.weight_decay = options.weight_decay;
  return nn::check(optimizer, options.wide ? gpuactors::DType::f64 : gpuactors::DType::f32);
}

} // namespace

Result<Sweep> parse_sweep(const std::string& text) {
  static const std::vector<std::string> names{"rate", "momentum", "weight-decay", "batch", "seed"};
  const auto equals = text.find('=');
  Sweep sweep{text.substr(0, equals), {}};
  if (equals == std::string::npos || std::find(names.begin(), names.end(), sweep.name) == names.end())
    return gpuactors::fail(
        Errc::invalid_argument,
        fmt::format("--sweep takes {} and values, such as rate=0.1,0.01, not \"{}\"", fmt::join(names, ", "), text));
  const bool whole = sweep.name == "batch" || sweep.name == "seed";
  for (auto rest = text.substr(equals + 1);;) {
    const auto end = std::min(rest.find(','), rest.size());
    double value = 0;
    const auto [parsed, error] = std::from_chars(rest.data(), rest.data() + end, value);
    if (error != std::errc{} || parsed != rest.data() + end || !std::isfinite(value)
        || (whole && (value != std::floor(value) || value < 0 || value > 1e15)))
      return gpuactors::fail(Errc::invalid_argument, fmt::format("--sweep: \"{}\" is no {} for {}", rest.substr(0, end),
                                                                 whole ? "whole number" : "number", sweep.name));
    sweep.values.push_back(value);
    if (end == rest.size())
      break;
    rest.erase(0, end + 1);
  }
  if (sweep.values.size() > most_values)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("--sweep takes at most {} values", most_values));
  return sweep;
}

void apply(const Sweep& sweep, double value, Plan& plan) {
  if (sweep.name == "rate")
    plan.set_rate(value);
  else if (sweep.name == "momentum")
    plan.set_momentum(value);
  else if (sweep.name == "weight-decay")
    plan.set_weight_decay(value);
  else if (sweep.name == "batch")
    plan.set_batch(static_cast<std::int64_t>(value));
  else
    plan.set_seed(static_cast<std::uint64_t>(value));
}

std::optional<TrainOptions> parse_options(int argc, char** argv, int& exit_code) {
  CLI::App program{description, "gpuactors-train"};
  program.set_version_flag("--version", std::string{"gpuactors-train "} + gpuactors::release);
  program.footer(examples);
  program.get_formatter()->column_width(34);
  TrainOptions options;
  std::string on_loss = "stop";
  std::string sweep;
  auto head = [&program, first = program.get_options().size()](const char* heading) mutable {
    gpuactors::cli::put_under(heading, program, first);
    first = program.get_options().size();
  };
  add_learning(program, options);
  head("Learning");
  add_files(program, options);
  head("Files");
  add_resources(program, options, on_loss, sweep);
  head("Resources");
  add_cluster(program, options.cluster);
  head("Cluster");
  const auto complain = [&](std::string_view text) {
    fmt::print(stderr, "gpuactors-train: {}\n", text);
    exit_code = usage_error;
    return std::nullopt;
  };
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", program.help());
    exit_code = 0;
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    exit_code = 0;
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return complain(gpuactors::cli::explain(program, error));
  }
  options.on_loss = on_loss == "shrink" ? OnLoss::shrink : on_loss == "restart" ? OnLoss::restart : OnLoss::stop;
  // Plaintext was chosen already.
  options.nccl = options.nccl || options.cluster.connect.insecure;
  if (!sweep.empty()) {
    auto parsed = parse_sweep(sweep);
    if (!parsed)
      return complain(parsed.error().message());
    options.sweep = std::move(*parsed);
  }
  if (const auto fine = check_together(options, program.get_option("--splits")->count() != 0); !fine)
    return complain(fine.error().message());
  if (const auto fine = options.cluster.check(); !fine)
    return complain(fine.error().message());
  return options;
}

} // namespace train
