// gpuactors metrics: serves a cluster's state to Prometheus over HTTP, in a process beside the broker.
#include "cluster_options.hpp"
#include "command.hpp"
#include "http_page.hpp"
#include "metrics_text.hpp"

#include <gpuactors/base/version.hpp>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct MetricsArguments {
  ClusterOptions cluster;
  std::string listen = "127.0.0.1:7712";
  bool allow_remote = false;
};

/// How long an answer of the broker is reused for other scrapes.
constexpr std::chrono::seconds answer_age{1};

/// How long the broker may take to answer; less than a page waits for its reply.
constexpr std::chrono::seconds broker_patience{3};

constexpr auto metrics_type = "text/plain; version=0.0.4; charset=utf-8";

/// The last answer of the broker.
struct Scrape {
  /// The metrics; empty if the broker did not answer.
  std::string text;
  /// Why the broker did not answer; empty if it did.
  std::string problem;
  double seconds = 0;
  std::uint64_t errors = 0;
};

/// Asks the broker on behalf of all scrapes: at most once within a second, and never twice at a time. Any thread.
class Scraper {
public:
  using Taker = std::function<void(const Scrape&)>;

  explicit Scraper(Cluster& cluster) : cluster_(cluster) {
    // nop
  }

  /// Calls `taker` with the last answer, or with the next one, on the thread that brings it.
  void ask(Taker taker) {
    std::unique_lock lock{shared_->mutex};
    if (!shared_->asking && shared_->asked_at && Clock::now() - *shared_->asked_at < answer_age) {
      const auto ready = shared_->last;
      lock.unlock();
      return taker(ready);
    }
    shared_->takers.push_back(std::move(taker));
    if (std::exchange(shared_->asking, true))
      return;
    shared_->asked_at = Clock::now();
    lock.unlock();
    cluster_.state_async({.timeout = broker_patience}).then([shared = shared_](const Result<v1::ClusterState>& state) {
      take(*shared, state);
    });
  }

private:
  struct Shared {
    std::mutex mutex;
    Scrape last;
    std::optional<TimePoint> asked_at;
    bool asking = false;
    std::vector<Taker> takers;
  };

  static void take(Shared& shared, const Result<v1::ClusterState>& state) {
    std::vector<Taker> takers;
    Scrape scrape;
    if (state)
      scrape.text = metrics_text(*state);
    else
      scrape.problem = state.error().message();
    {
      const std::lock_guard lock{shared.mutex};
      scrape.seconds = to_seconds(Clock::now() - *shared.asked_at);
      scrape.errors = shared.last.errors + (state ? 0 : 1);
      shared.last = scrape;
      shared.asking = false;
      takers = std::exchange(shared.takers, {});
    }
    for (const auto& taker : takers)
      taker(scrape);
  }

  Cluster& cluster_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

/// Returns the cluster's metrics, then those of this program.
std::string page_of(const Scrape& scrape) {
  MetricsWriter own;
  own.family("gpuactors_up", "gauge", "Whether the broker has answered.");
  own.sample({}, scrape.problem.empty() ? 1 : 0);
  own.family("gpuactors_scrape_errors_total", "counter", "How often the broker did not answer.");
  own.sample({}, static_cast<double>(scrape.errors));
  own.family("gpuactors_scrape_duration_seconds", "gauge", "How long the broker took to answer.");
  own.sample({}, scrape.seconds);
  own.family("gpuactors_build_info", "gauge", "The release that this exporter runs, as a label.");
  own.sample({{"release", release}}, 1);
  return scrape.text + own.text();
}

void answer_page(Scraper& scraper, const PageRequest& request, PageReply reply) {
  if (request.path == "/livez")
    return reply({200, PageAnswer{}.type, "ok\n"});
  if (request.path == "/metrics")
    return scraper.ask([reply = std::move(reply)](const Scrape& scrape) {
      reply({200, metrics_type, page_of(scrape)});
    });
  if (request.path == "/readyz")
    return scraper.ask([reply = std::move(reply)](const Scrape& scrape) {
      if (scrape.problem.empty())
        reply({200, PageAnswer{}.type, "ready\n"});
      else
        reply({503, PageAnswer{}.type, scrape.problem + "\n"});
    });
  reply({404, PageAnswer{}.type, "there are /metrics, /livez and /readyz\n"});
}

/// Connects even if the broker is not there yet, because monitoring may start before the cluster.
Result<Cluster> open_or_wait(const ClusterOptions& options) {
  auto cluster = options.open();
  if (cluster || cluster.error().code() != Errc::unavailable)
    return cluster;
  std::cerr << cluster.error().message() << "; it is tried again and again" << std::endl;
  return options.open(Duration::zero());
}

Result<void> run_metrics(const MetricsArguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  GPUACTORS_LET(where, parse_endpoint(arguments.listen));
  if (!is_loopback(where.host) && !arguments.allow_remote)
    return fail(Errc::invalid_argument,
                fmt::format("--listen {}: others than this machine could read names and loads of everything there is, "
                            "without a certificate; --allow-remote says that they may",
                            arguments.listen));
  const StopSignals signals;
  GPUACTORS_LET(page, HttpPage::listen(where));
  GPUACTORS_LET(cluster, open_or_wait(arguments.cluster));
  Scraper scraper{cluster};
  std::cout << fmt::format("metrics at http://{}/metrics", to_string(page.endpoint())) << std::endl;
  return page.serve(
      [&](const PageRequest& request, PageReply reply) { answer_page(scraper, request, std::move(reply)); },
      signals.token());
}

} // namespace

Command add_metrics(CLI::App& program) {
  auto arguments = std::make_shared<MetricsArguments>();
  auto* parser = program.add_subcommand("metrics", "Serve the cluster's state to Prometheus, until Ctrl-C");
  parser
      ->add_option("--listen", arguments->listen, "Where it is read; port 0: any that is free. Default: 127.0.0.1:7712")
      ->type_name("HOST:PORT");
  parser->add_flag("--allow-remote", arguments->allow_remote,
                   "Listen also at an address that other machines reach: anyone there may read it, in plaintext");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "GET /metrics  Prometheus' text format: nodes, devices, leases, actors, queue, clients, events by kind, and "
      "whether "
      "the broker answered (gpuactors_up)\n"
      "GET /livez    200 as long as it runs\n"
      "GET /readyz   200 when the broker has answered within the last seconds, else 503 with the reason\n\n"
      "It is one more client of the broker, which it asks at most once a second. It starts without a broker too.\n\n"
      "Examples:\n"
      "  gpuactors metrics --broker 127.0.0.1:7711\n"
      "  curl -s http://127.0.0.1:7712/metrics | grep gpuactors_device_free_share\n"
      "  gpuactors metrics --broker 10.0.0.1:7711 --listen 10.0.0.1:7712 --allow-remote");
  return {parser, [arguments] { return run_metrics(*arguments); }};
}

} // namespace gpuactors::cli
