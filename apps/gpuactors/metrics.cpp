// gpuactors metrics: serves a cluster's state to Prometheus over HTTP, in a process beside the broker.
#include "cluster_options.hpp"
#include "command.hpp"
#include "http_page.hpp"
#include "listen_options.hpp"
#include "metrics_text.hpp"
#include "scraper.hpp"

#include <gpuactors/base/version.hpp>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct MetricsArguments {
  ClusterOptions cluster;
  ListenOptions listen{"127.0.0.1:7712", "names and loads of everything there is"};
};

constexpr auto metrics_type = "text/plain; version=0.0.4; charset=utf-8";

/// A state of the cluster as text for Prometheus.
using MetricsScrape = Scrape<std::string>;

/// Returns the cluster's metrics, then those of this program.
std::string page_of(const MetricsScrape& scrape) {
  MetricsWriter own;
  own.family("gpuactors_up", "gauge", "Whether the broker has answered.");
  own.sample({}, scrape.problem.empty() ? 1 : 0);
  own.family("gpuactors_scrape_errors_total", "counter", "How often the broker did not answer.");
  own.sample({}, static_cast<double>(scrape.errors));
  own.family("gpuactors_scrape_duration_seconds", "gauge", "How long the broker took to answer.");
  own.sample({}, scrape.seconds);
  own.family("gpuactors_build_info", "gauge", "The release that this exporter runs, as a label.");
  own.sample({{"release", release}}, 1);
  return (scrape.problem.empty() && scrape.value ? *scrape.value : std::string{}) + own.text();
}

void answer_page(Scraper<std::string>& scraper, const PageRequest& request, PageReply reply) {
  if (request.path == "/livez")
    return reply({200, PageAnswer{}.type, "ok\n"});
  if (request.path == "/metrics")
    return scraper.ask([reply = std::move(reply)](const MetricsScrape& scrape) {
      reply({200, metrics_type, page_of(scrape)});
    });
  if (request.path == "/readyz")
    return scraper.ask([reply = std::move(reply)](const MetricsScrape& scrape) {
      if (scrape.problem.empty())
        reply({200, PageAnswer{}.type, "ready\n"});
      else
        reply({503, PageAnswer{}.type, scrape.problem + "\n"});
    });
  reply({404, PageAnswer{}.type, "there are /metrics, /livez and /readyz\n"});
}

Result<void> run_metrics(const MetricsArguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  GPUACTORS_LET(where, arguments.listen.where());
  const StopSignals signals;
  GPUACTORS_LET(page, HttpPage::listen(where));
  GPUACTORS_LET(cluster, arguments.cluster.open_or_wait());
  Scraper<std::string> scraper{cluster, metrics_text};
  std::cout << fmt::format("metrics at http://{}/metrics", to_string(page.endpoint())) << std::endl;
  return page.serve(
      [&](const PageRequest& request, PageReply reply) { answer_page(scraper, request, std::move(reply)); },
      signals.token());
}

} // namespace

Command add_metrics(CLI::App& program) {
  auto arguments = std::make_shared<MetricsArguments>();
  auto* parser = program.add_subcommand("metrics", "Serve the cluster's state to Prometheus, until Ctrl-C");
  arguments->listen.add_to(*parser);
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
