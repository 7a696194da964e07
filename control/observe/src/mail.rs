//! Emails about servers (manual, "email-alert").

use weir_backend::MailLevel;
use weir_expr::TimeZone;
use weir_formats::CivilTime;
use weir_mail::Mail;
use weir_model::Severity;
use weir_stream::instance::Proxy;

use super::LiveProcess;

/// Sends a log message as an email, if the proxy is configured for it.
pub(super) fn send(live: &LiveProcess, proxy: &Proxy, level: MailLevel, text: &str) {
    let Some(alert) = &proxy.config.settings.mail_alert else { return };
    if live.record.scripts.as_ref().is_some_and(|scripts| scripts.sends_mails()) {
        return;
    }
    let severity = match level {
        MailLevel::Alert => Severity::Alert,
        MailLevel::Notice => Severity::Notice,
        MailLevel::Info => Severity::Info,
    };
    let least = alert.level.unwrap_or(Severity::Alert);
    let (Some(section), Some(from), Some(to)) = (&alert.mailers, &alert.from, &alert.to) else { return };
    let mailers = live.record.mailers.get(section).filter(|_| severity as u8 <= least as u8);
    let Some(mailers) = mailers else { return };
    let identity = &live.instance.identity;
    let text = text.strip_suffix('.').unwrap_or(text);
    let seconds = weir_sched::wall_us() / 1_000_000;
    mailers.send(Mail {
        from: from.to_string(),
        to: to.to_string(),
        host_name: alert.host_name.as_deref().unwrap_or(&identity.hostname).to_owned(),
        date: date(i64::try_from(seconds).unwrap_or_default(), &identity.time_zone),
        subject: format!("[HAProxy Alert] {text}"),
        text: text.to_owned(),
    });
}

/// A date in email format (RFC 5322, 3.3): `Mon, 23 Nov 2026 04:22:14 +0000 (UTC)`.
fn date(seconds: i64, zone: &TimeZone) -> String {
    let local = zone.at(seconds);
    let date = CivilTime::at(seconds, local.offset);
    let (weekday, month) = (date.weekday_name(), date.month_name());
    let CivilTime { year, day, hour, minute, second, .. } = date;
    let sign = if local.offset < 0 { '-' } else { '+' };
    let minutes = local.offset.unsigned_abs() / 60;
    let (ahead, rest) = (minutes / 60, minutes % 60);
    format!(
        "{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} {sign}{ahead:02}{rest:02} ({})",
        local.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_dates_use_the_local_time_zone() {
        let check = |seconds, offset, name: &str, expected: &str| {
            assert_eq!(date(seconds, &TimeZone::fixed(offset, name)), expected);
        };
        check(1_795_407_734, 0, "UTC", "Mon, 23 Nov 2026 04:22:14 +0000 (UTC)");
        check(1_795_407_734, -12_600, "NST", "Mon, 23 Nov 2026 00:52:14 -0330 (NST)");
        check(0, 3600, "CET", "Thu, 01 Jan 1970 01:00:00 +0100 (CET)");
    }
}
