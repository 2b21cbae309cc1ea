//! A simulated run as a Chrome trace (JSON), which Perfetto and chrome://tracing open.
//!
//! Processes of the trace: compute processors, I/O processors, disks (with a counter of the
//! cylinder, so that head movements show) and messages as arrows between processors.

use trireme_sim::fs::Scenario;
use trireme_sim::time::Time;
use trireme_sim::trace::Trace;

const CPS: u32 = 1;
const IOPS: u32 = 2;
const DISKS: u32 = 3;
const MESSAGES: u32 = 4;

/// The trace of one run of `scenario`.
pub fn render(scenario: &Scenario, trace: &Trace) -> String {
    let cps = scenario.machine.cps;
    let place = |node: u16| {
        if usize::from(node) < cps {
            (CPS, usize::from(node))
        } else {
            (IOPS, usize::from(node) - cps)
        }
    };
    let mut events = vec![];
    for (pid, name) in [
        (CPS, "compute processors"),
        (IOPS, "I/O processors"),
        (DISKS, "disks"),
        (MESSAGES, "messages"),
    ] {
        events.push(meta("process_name", pid, 0, name));
        events.push(format!(
            "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{pid},\"args\":{{\"sort_index\":{pid}}}}}"
        ));
    }
    for cp in 0..cps {
        events.push(meta("thread_name", CPS, cp, &format!("CP {cp}")));
        events.push(meta("thread_name", MESSAGES, cp, &format!("from CP {cp}")));
    }
    for iop in 0..scenario.machine.iops {
        events.push(meta("thread_name", IOPS, iop, &format!("IOP {iop}")));
        events.push(meta(
            "thread_name",
            MESSAGES,
            cps + iop,
            &format!("from IOP {iop}"),
        ));
    }
    for disk in 0..scenario.machine.disks {
        events.push(meta("thread_name", DISKS, disk, &format!("disk {disk}")));
    }
    for (node, label, start, end) in &trace.work {
        let (pid, tid) = place(*node);
        events.push(span(label, pid, tid, *start, *end, ""));
    }
    for request in &trace.disks {
        let kind = if request.request.write {
            "write"
        } else {
            "read"
        };
        let details = format!(
            "\"sector\":{},\"sectors\":{},\"cylinder\":{}",
            request.request.sector, request.request.sectors, request.cylinder
        );
        events.push(span(
            kind,
            DISKS,
            request.disk,
            request.start,
            request.end,
            &details,
        ));
        events.push(format!(
            "{{\"ph\":\"C\",\"name\":\"cylinder of disk {}\",\"pid\":{DISKS},\"ts\":{},\"args\":{{\"cylinder\":{}}}}}",
            request.disk,
            us(request.end),
            request.cylinder
        ));
    }
    for (from, to, bytes, sent, arrived) in &trace.messages {
        let (_, peer) = place(*to);
        let name = if usize::from(*to) < cps {
            format!("to CP {peer}")
        } else {
            format!("to IOP {peer}")
        };
        let details = format!("\"bytes\":{bytes}");
        events.push(span(
            &name,
            MESSAGES,
            usize::from(*from),
            *sent,
            *arrived,
            &details,
        ));
    }
    format!(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}}},\"traceEvents\":[\n{}\n]}}\n",
        trace.dropped,
        events.join(",\n")
    )
}

fn meta(kind: &str, pid: u32, tid: usize, name: &str) -> String {
    format!(
        "{{\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":\"{name}\"}}}}"
    )
}

fn span(name: &str, pid: u32, tid: usize, start: Time, end: Time, details: &str) -> String {
    format!(
        "{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},\"args\":{{{details}}}}}",
        us(start),
        us(end - start)
    )
}

/// Microseconds with picoseconds behind the point, exactly.
fn us(time: Time) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme_sim::fs::Method;

    #[test]
    fn a_trace_is_valid_json_with_disks_processors_and_messages() {
        let scenario = Scenario {
            method: Method::DirectedSorted,
            pattern: "rb".into(),
            file_bytes: 1 << 20,
            ..Scenario::default()
        };
        let outcome = scenario.run_traced(Some(100_000)).unwrap();
        let text = render(&scenario, &outcome.trace.unwrap());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let spans_of = |pid| {
            events
                .iter()
                .filter(|e| e["ph"] == "X" && e["pid"] == pid)
                .count()
        };
        assert_eq!(spans_of(DISKS), 128, "one span per block");
        assert!(spans_of(CPS) > 0 && spans_of(IOPS) > 0 && spans_of(MESSAGES) > 0);
        assert!(events.iter().any(|e| e["ph"] == "C"));
    }
}
