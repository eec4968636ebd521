-- Konverge's status contract for Argo CD. Only what a person must change (Stalled) is Degraded, for that fails a sync;
-- what will be tried again is Progressing, for that a sync waits.
local health = { status = "Progressing", message = "Waiting for the operator" }
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end

local ready, stalled
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" and ready == nil then
    ready = condition
  elseif condition.type == "Stalled" and condition.status == "True" then
    stalled = condition
  end
end

if stalled ~= nil then
  health.status = "Degraded"
  health.message = stalled.message
elseif ready ~= nil then
  health.message = ready.message
  if ready.status == "True" then
    health.status = obj.spec ~= nil and obj.spec.suspend and "Suspended" or "Healthy"
  end
end
return health
