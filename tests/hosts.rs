use git_agent::wire::host_settings::*;
#[test]
fn scratch() {
    for host in Host::ALL {
        let m = merge(host, None, HostWorktrees::Host).unwrap();
        println!("== {host:?} {}", m.changed);
        if host != Host::Opencode {
            let m2 = merge(host, Some("{\n  // mine\n  \"a\": 1, // one\n  \"hooks\": {\n    \"PreToolUse\": [\n      // keep\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"x\"}]}\n    ]\n  }\n}\n"), HostWorktrees::Ours).unwrap();
            println!("{}", m2.text);
            println!("{:?}", remove(host, Some(&m2.text)).unwrap());
            for t in [
                "{}",
                "{\"a\":1}",
                "// only\n",
                "{\"hooks\":{}}",
                "{\"a\":[1,2,],}\r\n",
            ] {
                println!(
                    "{t:?} -> {}",
                    merge(host, Some(t), HostWorktrees::Host).unwrap().text
                );
            }
        }
        println!(
            "{:?} {:?}",
            status(host, Some(&m.text)).unwrap(),
            remove(host, Some(&m.text)).unwrap()
        );
    }
    println!(
        "{}",
        merge(Host::Claude, None, HostWorktrees::Host).unwrap().text
    );
}
