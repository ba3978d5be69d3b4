// The generate extension and OpenAI's paths over HTTP: one answer, or a stream of events.
#pragma once

#include <apps/serve/http/api.hpp>

#include <memory>

namespace serve {

/// Reads the body, has the model asked, and answers with the first of its replies, behind which the others come as
/// events; or, where the path or the body says so, with all of them as one. What takes long happens on the threads of
/// `FrontState::heavy`. Any thread.
/// @param trace What its work is a part of.
/// @returns the handle by which it is given up.
std::shared_ptr<Service::Ticket> generate_over_http(const std::shared_ptr<FrontState>& state,
                                                    const gpuactors::TraceContext& trace, Route route, Bytes body,
                                                    HttpApi::Done done);

} // namespace serve
