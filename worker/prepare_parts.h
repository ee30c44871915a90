// What is prepared alike for every engine.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/text/tokenizer.h"
#include "worker/model/model_text.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::worker {

// Routers would refuse a worker whose text they can not handle, one after another. This check reports it once, at the
// start. `model` names the folder in errors.
[[nodiscard]] Result<std::shared_ptr<const Tokenizer>> CheckText(const ModelText& text, const std::string& model);

// The fields of a setup that follow from the flags and the model's text alone.
void FillIn(const WorkerOptions& options, ModelText text, WorkerSetup& setup);

}  // namespace roost::worker
